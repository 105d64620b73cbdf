#!/usr/bin/env python3
"""How far what-if is from the truth for programs that it only has a recording of: each program is recorded once with `--deep` and without a limit; the smallest limit
that what-if then names for an allocator stands beside the smallest one under which the same program really runs with that allocator. Prints a table.

Usage: recorded.py BIN [--only PROGRAM] torch=PYTHON tensorflow=PYTHON"""
import pathlib
import statistics
import sys
import tempfile

from framework import Framework, answer

TORCH = """
import os, sys, torch
from torch import nn
cuda = dict(device='cuda')
def train(network, batch, steps, optimizer=torch.optim.Adam):
    network = network.cuda()
    optimizer = optimizer(network.parameters())
    for step in range(steps):
        loss = network(batch(step)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
def mlp():
    train(nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]), lambda step: torch.randn(512, 2048, **cuda), 6)
def transformer():  # sentences of different lengths
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    train(nn.TransformerEncoder(layer, 4), lambda step: torch.randn(16, 128 + 37 * step % 200, 512, **cuda), 8)
def convolutions():
    blocks = [nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU()]
    for _ in range(4): blocks += [nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
    train(nn.Sequential(*blocks), lambda step: torch.randn(16, 3, 224, 224, **cuda), 5, lambda parameters: torch.optim.SGD(parameters, 0.1, 0.9))
def inference():  # a cache of keys and values that grows with each word
    weights = [torch.empty(1024, 4096, dtype=torch.half, **cuda) for _ in range(12)]
    with torch.no_grad():
        for request in range(3):
            cache = [torch.empty(4, 64 + 50 * request, 1024, dtype=torch.half, **cuda) for _ in weights]
            for word in range(60):
                state = torch.empty(4, 1, 1024, dtype=torch.half, **cuda)
                for layer, weight in enumerate(weights):
                    cache[layer] = torch.cat([cache[layer], state], 1)
                    hidden = state @ weight
                    (cache[layer] * 2).sum()
try:
    globals()[sys.argv[1]]()
    torch.cuda.synchronize()
except RuntimeError as error:
    code = 17 if 'memory' in str(error).lower() or 'ALLOC_FAILED' in str(error) else 1
    if code == 1: print(error, file=sys.stderr, flush=True)
    os._exit(code)
os._exit(0)
"""
TENSORFLOW = """
import os, sys
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import tensorflow as tf
def train(layers, batch, steps):
    network = tf.keras.Sequential(layers)
    optimizer = tf.keras.optimizers.Adam()
    for step in range(steps):
        with tf.GradientTape() as tape: loss = tf.reduce_mean(tf.square(network(batch(step), training=True)))
        optimizer.apply(tape.gradient(loss, network.trainable_variables), network.trainable_variables)
def mlp():
    train([tf.keras.layers.Dense(2048) for _ in range(8)], lambda step: tf.random.normal([512, 2048]), 6)
def lengths():
    train([tf.keras.layers.Dense(1024, 'relu') for _ in range(6)], lambda step: tf.random.normal([16, 128 + 37 * step % 200, 1024]), 8)
def convolutions():
    train([tf.keras.layers.Conv2D(64, 3, padding='same', activation='relu') for _ in range(4)], lambda step: tf.random.normal([16, 112, 112, 3]), 5)
try:
    globals()[sys.argv[1]]()
except tf.errors.OpError as error:  # cuDNN's own searches end with others
    print(str(error)[:2000], file=sys.stderr, flush=True)
    os._exit(17 if isinstance(error, (tf.errors.ResourceExhaustedError, tf.errors.InternalError)) or 'failed to allocate' in str(error) else 1)
os._exit(0)
"""
FRAMEWORKS = {
    "torch": (TORCH, ("mlp", "transformer", "convolutions", "inference"), {
        "pytorch": {},
        "pytorch:expandable_segments:True": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"},
        "pytorch:max_split_size_mb:32": {"PYTORCH_ALLOC_CONF": "max_split_size_mb:32"},
        "cuda_malloc_async": {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"},
    }),
    "tensorflow": (TENSORFLOW, ("mlp", "lengths", "convolutions"), {
        "tensorflow": {"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
        "tensorflow:growth:False": {"TF_FORCE_GPU_ALLOW_GROWTH": "false"},
        "cuda_malloc_async": {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "TF_GPU_ALLOCATOR": "cuda_malloc_async"},
    }),
}


def main():
    words = sys.argv[1:]
    tools = pathlib.Path(words.pop(0)).resolve()
    only = words.pop(words.index("--only") + 1) if "--only" in words else ""
    pythons = dict(word.split("=", 1) for word in words if "=" in word)
    print("| program | allocator | what-if | measured | error |\n| --- | --- | --- | --- | --- |")
    errors = []
    for framework, python in pythons.items():
        program, names, allocators = FRAMEWORKS[framework]
        for name in names:
            if only not in (framework, f"{framework} {name}", ""):
                continue
            with tempfile.TemporaryDirectory() as folder:
                recording = pathlib.Path(folder, "run.rec")
                Framework(tools, python, program, {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}).run(name, options=["--record", recording, "--deep"])
                for allocator, variables in allocators.items():
                    predicted = answer(tools, recording, allocator)
                    measured = Framework(tools, python, program, variables).smallest(predicted, name)
                    errors.append(abs(predicted - measured) / measured)
                    print(f"| {framework} {name} | {allocator} | {predicted / (1 << 20):,.0f} MiB | {measured / (1 << 20):,.0f} MiB | "
                          f"{100 * (predicted - measured) / measured:+.2f} % |", flush=True)
    print(f"\nmedian {100 * statistics.median(errors):.2f} %, worst {100 * max(errors):.2f} %, of {len(errors)}")


main()
