#!/usr/bin/env python3
"""How far the models of `ration whatif` are from the stock frameworks on the simulated GPU: for each history and allocator, the smallest limit that the model
names beside the one under which the framework itself replays the history. Prints a table.

Usage: models.py BIN [--only ALLOCATOR] [--trace NAME] torch=PYTHON tensorflow=PYTHON"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
NODE, GRANULE = "T4:32GiB", 2 << 20
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


class Framework:
    """A program of a framework that replays a history under a limit."""

    def __init__(self, tools, python, program, variables):
        self.tools, self.python, self.program, self.variables = tools, python, program, variables

    def run(self, *words, limit):
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, RATION_RUNTIME_DIR=folder, RATION_SIM_DIR=folder, PYTHONPATH=str(SOURCE / "libration/python"),
                               RATION_LIBRARY=str(self.tools.parent / "lib/libration.so.1"), **self.variables)
            summary = pathlib.Path(folder, "summary.json")
            done = subprocess.run([self.tools / "ration", "run", f"--sim={NODE}", "--limit", f"{limit}B", "--summary", f"json:{summary}", "--framework-hints", "off", "--",
                                   self.python, "-c", self.program, *map(str, words)], env=environment, capture_output=True, text=True, cwd=folder)
            if done.returncode not in (0, 17):
                raise RuntimeError(done.stderr[-3000:])
            return done.returncode == 0, json.loads(summary.read_text())

    def context(self):
        """What the process holds before the first tensor."""
        return self.run("none", "stop", limit=16 << 30)[1]["accounts"][0]["peak_bytes"]

    def smallest(self, trace, guess):
        """The smallest limit under which it replays the history, looked for around `guess`."""
        fits = lambda limit: self.run(trace, limit=limit)[0]
        if fits(guess):
            enough, step = guess, GRANULE
            while fits(enough - step):
                enough, step = enough - step, step * 4
            denied = enough - step
        else:
            denied, step = guess, GRANULE
            while not fits(denied + step):
                denied, step = denied + step, step * 4
            enough = denied + step
        while enough - denied > GRANULE:
            middle = denied + (enough - denied) // GRANULE // 2 * GRANULE
            if fits(middle):
                enough = middle
            else:
                denied = middle
        return enough


def predict(tools, trace, allocator):
    told = subprocess.run([tools / "ration", "whatif", trace, "--allocator", allocator, "-o", "json"], capture_output=True, text=True, check=True)
    row, = [row for row in json.loads(told.stdout)["data"]["recordings"][0]["answers"] if row["allocator"] == allocator]
    return row["smallest_limit_bytes"]


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
            predicted = predict(tools, trace, name) + context
            measured = own.smallest(trace, predicted)
            errors.append(abs(predicted - measured) / measured)
            print(f"| {name} | {trace.stem} | {predicted / (1 << 20):,.0f} MiB | {measured / (1 << 20):,.0f} MiB | {100 * (predicted - measured) / measured:+.2f} % |", flush=True)
    print(f"\nmedian {100 * statistics.median(errors):.2f} %, worst {100 * max(errors):.2f} %, of {len(errors)}")


main()
