#!/usr/bin/env python3
"""How far the models of `ration whatif` are from the stock frameworks on the simulated GPU: for each history and allocator, the smallest limit that the model
names beside the one under which the framework itself replays the history. Prints a table.

Usage: models.py BIN [--only ALLOCATOR] [--trace NAME] torch=PYTHON tensorflow=PYTHON"""
import pathlib
import statistics
import sys

from framework import SOURCE, Framework, answer

HEAD = """
import csv, sys
def steps():
    with open(sys.argv[1]) as file:
        for row in csv.DictReader(file):
            yield row['op'], row['id'], int(row['size'])
def replay(take, refused):
    live = {}
    for number, (operation, block, size) in enumerate(steps()):
        try:
            if operation == 'a' and size: live[block] = take(size)
            elif operation == 'f': live.pop(block, None)
        except refused:
            sys.exit(17)
"""
TORCH = HEAD + """
import torch
%s
torch.cuda.init(); torch.cuda.current_stream().synchronize()
if len(sys.argv) > 2: sys.exit(0)
replay(lambda size: torch.empty(size, dtype=torch.uint8, device='cuda'), RuntimeError)
"""
TENSORFLOW = """
import os
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
""" + HEAD + """
import tensorflow as tf
gpu, = tf.config.list_logical_devices('GPU')
if len(sys.argv) > 2: sys.exit(0)
def take(size):
    with tf.device(gpu.name): return tf.raw_ops.Empty(shape=[size], dtype=tf.uint8, init=False)
replay(take, tf.errors.ResourceExhaustedError)
"""
SETTINGS = ["max_split_size_mb:128", "expandable_segments:True", "roundup_power2_divisions:4", "garbage_collection_threshold:0.6,per_process_memory_fraction:1.0"]
# By the model's name: the framework, its program, its variables.
ALLOCATORS = {
    "pytorch": ("torch", TORCH % "", {}),
    "cuda_malloc_async": ("torch", TORCH % "", {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "ration": ("torch", TORCH % "import ration.torch; ration.torch.use()", {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "0"}),
    "tensorflow": ("tensorflow", TENSORFLOW, {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}),
    "tensorflow:growth:False": ("tensorflow", TENSORFLOW, {"TF_FORCE_GPU_ALLOW_GROWTH": "false"}),
    **{f"pytorch:{text}": ("torch", TORCH % "", {"PYTORCH_ALLOC_CONF": text}) for text in SETTINGS},
}


def main():
    words = sys.argv[1:]
    tools = pathlib.Path(words.pop(0)).resolve()
    chosen = {flag: words.pop(words.index(flag) + 1) for flag in ("--only", "--trace") if flag in words}
    pythons = dict(word.split("=", 1) for word in words if "=" in word)
    traces = [trace for trace in sorted((SOURCE / "share/ration/traces").glob("*.csv")) if chosen.get("--trace", "") in trace.stem]
    print("| allocator | history | model | measured | error |\n| --- | --- | --- | --- | --- |")
    errors = []
    for name, (framework, program, variables) in ALLOCATORS.items():
        if framework not in pythons or not name.startswith(chosen.get("--only", "")):
            continue
        own = Framework(tools, pythons[framework], program, variables)
        context = own.context()
        for trace in traces:
            predicted = answer(tools, trace, name) + context
            measured = own.smallest(predicted, trace)
            errors.append(abs(predicted - measured) / measured)
            print(f"| {name} | {trace.stem} | {predicted / (1 << 20):,.0f} MiB | {measured / (1 << 20):,.0f} MiB | {100 * (predicted - measured) / measured:+.2f} % |", flush=True)
    print(f"\nmedian {100 * statistics.median(errors):.2f} %, worst {100 * max(errors):.2f} %, of {len(errors)}")


main()
