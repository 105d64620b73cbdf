#!/usr/bin/env python3
"""How many jobs of a stock framework one simulated 16 GiB T4 carries, by what keeps them apart, and what one of them holds.

A job holds 0.6 GiB and now and then needs 1.2 GiB. Usage: frameworks.py BIN NAME=PYTHON... (NAME: tensorflow or torch)"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

NODE, CARD, STEADY = "T4:16GiB", 16 << 30, 600
MOST = 8
JOBS = {
    "tensorflow": """
import os, sys
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import tensorflow as tf
if sys.argv[1] == 'growth':
    for gpu in tf.config.list_physical_devices('GPU'): tf.config.experimental.set_memory_growth(gpu, True)
take = lambda: tf.zeros([%d, 1 << 20], tf.uint8)
tf.zeros([1])
""" % STEADY,
    "torch": """
import sys, torch
take = lambda: torch.empty(%d << 20, dtype=torch.uint8, device='cuda')
torch.zeros(1, device='cuda')
""" % STEADY,
}
REST = """
print('started', flush=True); sys.stdin.readline()
kept = take(); extra = take()
print('peaked', flush=True); del extra
sys.stdin.readline()
"""


def read_sim_environment(tools, python):
    told = subprocess.run([tools / "ration", "sim", "env", f"--sim={NODE}", "-o", "json", "--", python], capture_output=True, text=True, check=True)
    return json.loads(told.stdout)["data"]["sets"]


def held(tools, environment):
    told = subprocess.run([tools / "ration-sim-truth", "--json"], capture_output=True, text=True, check=True, env=environment)
    device = json.loads(told.stdout)["devices"][0]
    return device["total_bytes"] - device["free_bytes"]


def measure(tools, name, python, mode, prefix=(), **variables):
    """What the first job holds when it has started and at its peak, and how many reach their peak together."""
    with tempfile.TemporaryDirectory() as folder:
        base = dict(os.environ, RATION_SIM=NODE, RATION_SIM_DIR=folder, RATION_RUNTIME_DIR=folder)
        environment = {**base, **variables} if prefix else {**base, **read_sim_environment(tools, python), **variables}
        jobs, first = [], None
        for number in range(MOST):
            job = subprocess.Popen([*prefix, python, "-c", JOBS[name] + REST, mode], env=environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder)
            jobs.append(job)
            if job.stdout.readline() != "started\n":
                job.wait()
                break
            at_start = held(tools, base)
            job.stdin.write("\n")
            job.stdin.flush()
            if job.stdout.readline() != "peaked\n":
                job.wait()
                break
            first = first or (at_start, held(tools, base))
        running = sum(1 for job in jobs if job.poll() is None)
        for job in jobs:
            job.kill()
            job.communicate()
        return first, running


def main():
    tools = pathlib.Path(sys.argv[1]).resolve()
    print("| framework | kept apart by | held at start | at its peak | jobs at once | known |\n| --- | --- | --- | --- | --- | --- |")
    known = {"default": "14.8 GB, 1", "visible": "14.8 GB, 1", "growth": "0.5-1.2 GB, 3-4", "ration": "0.6 GB, 5 or more", "promised": "0.6 GB, 5 or more"}
    names = {"default": "nothing", "visible": "CUDA_VISIBLE_DEVICES", "growth": "set_memory_growth(True)", "ration": "ration, at most 3 GiB each",
             "promised": "ration, 3 GiB promised each"}
    modes = os.environ.get("MODES", "default visible growth ration promised").split()
    for entry in sys.argv[2:]:
        name, python = entry.split("=", 1)
        for mode in modes:
            if name == "torch" and mode == "growth":
                continue  # PyTorch always grows
            promise = ["--guarantee", "3GiB"] if mode == "promised" else []
            prefix = [tools / "ration", "run", f"--sim={NODE}", "--limit", "3GiB", *promise, "--"] if mode in ("ration", "promised") else []
            variables = {"CUDA_VISIBLE_DEVICES": "0"} if mode == "visible" else {}
            first, running = measure(tools, name, python, mode, prefix, **variables)
            start, peak = (f"{size / 1e9:.2f} GB" for size in first) if first else ("n/a (no job ran)", "n/a (no job ran)")
            count = f"{running} or more" if running == MOST else running
            print(f"| {name} | {names[mode]} | {start} | {peak} | {count} | {known[mode]} |", flush=True)


main()
