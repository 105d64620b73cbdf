#!/usr/bin/env python3
"""What stock frameworks give back, and how soon: on `ration trim`, while another workload waits for room, once they are idle, and when their limit is lowered;
and what steps cost while they are trimmed.

Each job keeps 512 MiB of tensors and has freed 1 GiB, which its framework or the driver keeps. It runs steps of one tensor and a wait for the GPU: of 1 MiB,
and once the limit is lower, of 320 MiB, more than any tensor that was freed. An idle job runs one step after it has been found idle.
Usage: giving_back.py BIN NAME=PYTHON... (NAME: torch, tensorflow or jax)"""
import json
import os
import pathlib
import signal
import statistics
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
import time
for line in sys.stdin:
    mib, count = map(int, line.split())
    started = time.perf_counter()
    for _ in range(count):
        take(mib); wait()
    print('stepped', time.perf_counter() - started, flush=True)
"""
IDLE = """[[policy]]
match.any = true
idle.after = "1s"
idle.action = "trim"
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
        self.environment = dict(own, RATION_SIM_DIR=folder, RATION_RUNTIME_DIR=folder, TF_CPP_MIN_LOG_LEVEL="3", RATION_CONFIG=f"{folder}/ration.toml", **variables)
        pathlib.Path(folder, "ration.toml").write_text(IDLE)
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

    def row(self):
        return next(row for row in self.ration("ps", f"--sim={NODE}") if row["workload"] == "job")

    def held(self):
        return self.row()["used_bytes"]

    def step(self, mib, count=1):
        """Seconds of so many steps."""
        self.process.stdin.write(f"{mib} {count}\n")
        self.process.stdin.flush()
        word, *seconds = self.process.stdout.readline().split() or [""]
        if word != "stepped":
            raise SystemExit(self.process.communicate()[1][-2000:])
        return float(seconds[0])

    def given_back(self, ask, mib=1):
        """Bytes that came back within three seconds of steps of so many MiB after `ask()`, and the seconds until the last of them did."""
        before = self.held()
        asked = ask()
        started = time.monotonic()
        least, seconds = before, None
        while time.monotonic() < started + 3:
            self.step(mib)
            now = self.held()
            if now < least:
                least, seconds = now, time.monotonic() - started
        if asked is not None:
            asked.terminate()
            asked.wait()
        return before - least, seconds

    def begin(self, *arguments):
        return subprocess.Popen([self.tools / "ration", *arguments], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def neighbour(self):
        """One that the GPU has no room for until the job has given back most of what it keeps unused."""
        return self.begin("run", f"--sim={NODE}", "--wait", "--limit", f"{16 * 1024 - (self.held() >> 20) + 512}MiB", "--", "true")

    def idle(self):
        while (self.row()["idle_seconds"] or 0) < 3:
            time.sleep(0.1)

    def trimmed_steps(self):
        """How long steps take while the job is trimmed twice a second, beside the same without: the median of 11 turns of each."""
        count = max(10, int(1 / (self.step(64, 20) / 20)))
        ratios = []
        for _ in range(11):
            alone = self.step(64, count)
            trims = subprocess.Popen(["sh", "-c", 'while :; do "$0" trim job; sleep 0.5; done', self.tools / "ration"], env=self.environment, stdout=subprocess.DEVNULL, start_new_session=True)
            ratios.append(self.step(64, count) / alone)
            os.killpg(trims.pid, signal.SIGKILL)
            trims.wait()
        return statistics.median(ratios)

    def trim(self):
        return self.begin("trim", "job")

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
    row(["framework", "allocator", "held", "back on `ration trim`", "while another one waits", "once idle", "when the limit is 256 MiB below the rest", "steps while trimmed"])
    row(["---"] * 8)
    for framework, python in (each.split("=", 1) for each in sys.argv[2:]):
        for allocator, variables in ALLOCATORS[framework].items():
            cells = []
            for ask in (Job.trim, Job.neighbour, Job.idle):
                job = Job(tools, framework, python, variables)
                held = job.held()
                cells.append(said(*job.given_back(lambda: ask(job))))
                if ask is not Job.idle:
                    job.end()
            lower = (job.held() >> 20) - 256
            cells.append(said(*job.given_back(lambda: job.lower(lower), 320)) if lower > IN_USE else "nothing is kept")
            job.lower(8192)
            cells.append(f"{job.trimmed_steps():.3f}")
            job.end()
            row([framework, allocator, mib(held), *cells])


if __name__ == "__main__":
    main()
