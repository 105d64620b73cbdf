#!/usr/bin/env python3
"""What stock frameworks give back, and how soon: on `ration trim`, while another workload waits for room, once they are idle, and when their limit is lowered;
and what steps of a training cost while it is trimmed.

Each job keeps 512 MiB of tensors and has freed 1 GiB, which its framework or the driver keeps. It runs steps of one tensor and a wait for the GPU: of 1 MiB,
and once the limit is lower, of 320 MiB, more than any tensor that was freed. An idle job runs one step after it has been found idle.
Usage: giving_back.py BIN NAME=PYTHON... (NAME: torch, tensorflow or jax)"""
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
os.environ.update(BUILD_BIN=sys.argv[1], SOURCE=str(SOURCE))
sys.path.insert(0, str(SOURCE / "tests/system"))
from node_client import UnixConnection  # noqa: E402

NODE, MIB = "T4:16GiB:context=104MiB", 1 << 20
IN_USE = 104 + 512 + 16 + 320 + 64  # MiB of the context, of what is kept, of the weights and of the largest step, and some room
TURNS, STEPS_A_TURN = 50, 20  # of steps while trimmed and of steps alone, which is 1,000 of each
JOBS = {
    "torch": """
import sys, torch
take = lambda mib: torch.ones(mib << 20, dtype=torch.uint8, device='cuda')
wait = torch.cuda.synchronize
put = lambda array: torch.from_numpy(array).to('cuda')
get = lambda tensor: tensor.cpu().numpy()
""",
    "tensorflow": """
import sys, tensorflow as tf
for gpu in tf.config.list_physical_devices('GPU'): tf.config.experimental.set_memory_growth(gpu, True)
take = lambda mib: tf.ones([mib, 1 << 20], tf.uint8)
wait = lambda: tf.zeros([1]).numpy()
def put(array):
    with tf.device('GPU:0'): return tf.identity(tf.constant(array))
get = lambda tensor: tensor.numpy()
""",
    "jax": """
import sys, jax._src.hardware_utils as hardware
hardware.has_visible_nvidia_gpu = lambda: True  # without root there is no /dev/nvidia0 for the simulated GPU
import jax, jax.numpy as jnp
take = lambda mib: jnp.ones((mib, 1 << 20), jnp.uint8).block_until_ready()
wait = lambda: jnp.zeros(1).block_until_ready().__array__()
put = lambda array: jax.device_put(array).block_until_ready()
get = lambda tensor: tensor.__array__()
""",
}
STEPS = """
import numpy
bytes_of = numpy.random.default_rng(1).bytes
weights_of_host, batch_of_host = (numpy.frombuffer(bytes_of(mib << 20), numpy.uint8).copy() for mib in (16, 1))
weights = put(weights_of_host)
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
        sum(range(400_000))  # what a training does for each step on the host, about 8 ms
        batch = put(batch_of_host); take(mib); wait()
        if not (get(batch) == batch_of_host).all(): print('another batch', flush=True)
    seconds = time.perf_counter() - started
    print('stepped', seconds, flush=True) if (get(weights) == weights_of_host).all() else print('other weights', flush=True)
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
        self.environment = dict(own, RATION_SIM_DIR=folder, RATION_RUNTIME_DIR=folder, TF_CPP_MIN_LOG_LEVEL="3", JAX_PLATFORMS="cuda", RATION_CONFIG=f"{folder}/ration.toml", **variables)
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
        said = self.process.stdout.readline()
        if not said.startswith("stepped "):
            raise SystemExit(said + self.process.communicate()[1][-2000:])
        return float(said.split()[1])

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

    def trim_again_and_again(self, until):
        """Twice a second, in the daemon itself: a command beside the steps would take their processor."""
        while True:
            with contextlib.closing(UnixConnection(f"{self.folder.name}/ration.sock")) as connection:
                connection.request("POST", "/api/v1/workloads/job/trim")
                connection.getresponse().read()
            if until.wait(0.5):
                return

    def trimmed_steps(self):
        """How long 1,000 steps take while the job is trimmed, beside as many without, in turns: the median of the turns' ratios, and its error."""
        ratios = []
        for turn in range(TURNS):
            seconds = {}
            for trimmed in (True, False) if turn % 2 else (False, True):
                ended = threading.Event()
                trims = threading.Thread(target=self.trim_again_and_again, args=[ended])
                if trimmed:
                    trims.start()
                seconds[trimmed] = self.step(64, STEPS_A_TURN)
                ended.set()
                if trimmed:
                    trims.join()
            ratios.append(seconds[True] / seconds[False])
        return statistics.median(ratios), 1.25 * statistics.stdev(ratios) / TURNS ** 0.5

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
            cells.append("{:.3f} ± {:.3f}".format(*job.trimmed_steps()))
            job.end()
            row([framework, allocator, mib(held), *cells])


if __name__ == "__main__":
    main()
