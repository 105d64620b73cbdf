#!/usr/bin/env python3
"""What stock frameworks give back, and how soon: on `ration trim`, and when their limit is lowered.

Each job keeps 512 MiB of tensors and has freed 1 GiB, which its framework or the driver keeps. It runs steps of one tensor and a wait for the GPU: of 1 MiB,
and once the limit is lower, of 320 MiB, more than any tensor that was freed.
Usage: giving_back.py BIN NAME=PYTHON... (NAME: torch, tensorflow or jax)"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

NODE, MIB = "T4:16GiB:context=104MiB", 1 << 20
IN_USE = 104 + 512 + 320 + 64  # MiB of the context, of what is kept and of the largest step, and some room
JOBS = {
    "torch": """
import sys, torch
take = lambda mib: torch.ones(mib << 20, dtype=torch.uint8, device='cuda')
wait = torch.cuda.synchronize
""",
    "tensorflow": """
import sys, tensorflow as tf
for gpu in tf.config.list_physical_devices('GPU'): tf.config.experimental.set_memory_growth(gpu, True)
take = lambda mib: tf.ones([mib, 1 << 20], tf.uint8)
wait = lambda: tf.zeros([1]).numpy()
""",
    "jax": """
import sys, jax, jax.numpy as jnp
take = lambda mib: jnp.ones((mib, 1 << 20), jnp.uint8).block_until_ready()
wait = lambda: jnp.zeros(1).block_until_ready().__array__()
""",
}
STEPS = """
kept = take(512)
freed = [take(256) for _ in range(4)]
del freed
take(1); wait()
print('ready', flush=True)
for line in sys.stdin:
    take(int(line)); wait()
    print('stepped', flush=True)
"""
ALLOCATORS = {
    "torch": {"native": {}, "expandable segments": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}, "cudaMallocAsync": {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}},
    "tensorflow": {"BFC, growth": {}, "cuda_malloc_async": {"TF_GPU_ALLOCATOR": "cuda_malloc_async"}},
    "jax": {"BFC, no preallocation": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, "cuda_async": {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}},
}


class Job:
    """One job beside a daemon of its own."""

    def __init__(self, tools, framework, python, variables):
        self.tools = tools
        self.folder = tempfile.TemporaryDirectory()
        folder = self.folder.name
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_", "PYTHON"))}
        self.environment = dict(own, RATION_SIM_DIR=folder, RATION_RUNTIME_DIR=folder, TF_CPP_MIN_LOG_LEVEL="3", **variables)
        self.daemon = subprocess.Popen([tools / "rationd", f"--sim={NODE}", "--state", f"{folder}/state", "--listen", ""], env=self.environment,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.daemon.stdout.readline()
        self.process = subprocess.Popen([tools / "ration", "run", f"--sim={NODE}", "--name", "job", "--limit", "8GiB", "--", python, "-c", JOBS[framework] + STEPS],
                                        env=self.environment, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit(self.process.communicate()[1][-2000:])

    def ration(self, *arguments):
        done = subprocess.run([self.tools / "ration", *arguments, "--json"], env=self.environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["data"]

    def held(self):
        return self.ration("ps", f"--sim={NODE}")[0]["used_bytes"]

    def step(self, mib):
        self.process.stdin.write(f"{mib}\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "stepped\n":
            raise SystemExit(self.process.communicate()[1][-2000:])

    def given_back(self, before, ask, mib):
        """Bytes that came back within three seconds of steps of so many MiB after `ask()`, and the seconds until the last of them did."""
        started = time.monotonic()
        asked = ask()
        least, seconds = before, None
        while time.monotonic() < started + 3:
            self.step(mib)
            now = self.held()
            if now < least:
                least, seconds = now, time.monotonic() - started
        if asked is not None:
            asked.wait()
        return before - least, seconds

    def trim(self):
        return subprocess.Popen([self.tools / "ration", "trim", "job"], env=self.environment, stdout=subprocess.DEVNULL)

    def lower(self, mib):
        self.ration("set", "job", "--limit", f"{mib}MiB", "--yes")

    def end(self):
        self.process.kill()
        self.process.communicate()
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.communicate()
        self.folder.cleanup()


def main():
    tools = pathlib.Path(sys.argv[1]).resolve()
    mib = lambda size: f"{size / MIB:,.0f} MiB"
    row = lambda cells: print("| " + " | ".join(cells) + " |", flush=True)
    said = lambda back, seconds: mib(back) if back <= 0 else f"{mib(back)} in {seconds:.2f} s"
    row(["framework", "allocator", "held", "back on `ration trim`", "back when the limit is 256 MiB below that"])
    row(["---"] * 5)
    for framework, python in (each.split("=", 1) for each in sys.argv[2:]):
        for allocator, variables in ALLOCATORS[framework].items():
            job = Job(tools, framework, python, variables)
            held = job.held()
            trimmed, trimmed_in = job.given_back(held, job.trim, 1)
            rest = job.held()
            lower = (rest >> 20) - 256
            second = said(*job.given_back(rest, lambda: job.lower(lower), 320)) if lower > IN_USE else "nothing is kept"
            row([framework, allocator, mib(held), said(trimmed, trimmed_in), second])
            job.end()


if __name__ == "__main__":
    main()
