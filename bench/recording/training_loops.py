#!/usr/bin/env python3
"""What a recording costs training loops of stock frameworks on a simulated GPU: two jobs of one program, one of them recorded, take turns of steps.

Nothing is computed on the simulated GPU, so a step is what its framework does on the host, and the cost of a recording weighs more than beside a real one.
Usage: training_loops.py BIN NAME=PYTHON... (NAME: torch, tensorflow or jax)"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

NODE, TURNS, SECONDS_A_TURN = "T4:16GiB", 60, 0.3
LOOPS = {
    "torch": """
import torch
model = torch.nn.Sequential(*[layer for _ in range(8) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU())]).cuda()
optimizer = torch.optim.Adam(model.parameters())
batch = torch.randn(256, 512)
def step():
    optimizer.zero_grad()
    model(batch.to('cuda')).square().mean().backward()
    optimizer.step()
wait = torch.cuda.synchronize
""",
    "tensorflow": """
import tensorflow as tf
weights = [tf.Variable(tf.random.normal([512, 512])) for _ in range(8)]
batch = tf.random.normal([256, 512])
def step():
    with tf.GradientTape() as tape:
        out = batch
        for weight in weights: out = tf.nn.relu(out @ weight)
        loss = tf.reduce_mean(out * out)
    for weight, gradient in zip(weights, tape.gradient(loss, weights)): weight.assign_sub(0.01 * gradient)
wait = lambda: tf.zeros([1]).numpy()
""",
    "jax": """
import jax._src.hardware_utils as hardware
hardware.has_visible_nvidia_gpu = lambda: True  # without root there is no /dev/nvidia0 for the simulated GPU
import jax, jax.numpy as jnp
weights = [jnp.ones((512, 512)) for _ in range(8)]
batch = jnp.ones((256, 512))
def loss(weights):
    out = batch
    for weight in weights: out = jax.nn.relu(out @ weight)
    return (out * out).mean()
update = jax.jit(lambda weights: [w - 0.01 * g for w, g in zip(weights, jax.grad(loss)(weights))])
def step():
    global weights
    weights = update(weights)
wait = lambda: weights[0].block_until_ready()
""",
}
TURN = """
import sys, time
for _ in range(5): step()
wait()
print('ready', flush=True)
for line in sys.stdin:
    started = time.perf_counter()
    for _ in range(int(line)): step()
    wait()
    print(time.perf_counter() - started, flush=True)
"""
ALLOCATORS = {
    "torch": {"native": {}, "`cudaMallocAsync`": {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}},
    "tensorflow": {"BFC": {}, "`cuda_malloc_async`": {"TF_GPU_ALLOCATOR": "cuda_malloc_async"}},
    "jax": {"BFC": {}, "`cuda_async`": {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}},
}


class Job:
    def __init__(self, tools, folder, framework, python, variables, record):
        self.recording = folder / "loop.rec"
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_", "PYTHON"))}
        environment = dict(own, RATION_SIM_DIR=folder, RATION_RUNTIME_DIR=folder, TF_CPP_MIN_LOG_LEVEL="3", JAX_PLATFORMS="cuda", **variables)
        options = ["--record", self.recording] if record else []
        self.process = subprocess.Popen([tools / "ration", "run", f"--sim={NODE}", "--limit", "5GiB", *options, "--", python, "-c", LOOPS[framework] + TURN],
                                        env=environment, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.line()

    def line(self):
        return self.process.stdout.readline() or sys.exit(self.process.communicate()[1][-2000:])

    def turn(self, steps):
        """Seconds of so many steps."""
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.line())

    def end(self):
        self.process.communicate()


def events_in(tools, recording):
    told = subprocess.run([tools / "ration", "inspect", recording], capture_output=True, text=True, check=True).stdout
    return next(word for word, unit in zip(told.split(), told.split()[1:]) if unit.startswith("event"))


def main():
    tools = pathlib.Path(sys.argv[1]).resolve()
    print("| framework | allocator | steps of each | a step | events recorded | with a recording / without |\n| --- | --- | --- | --- | --- | --- |")
    for framework, python in (each.split("=", 1) for each in sys.argv[2:]):
        for allocator, variables in ALLOCATORS[framework].items():
            with tempfile.TemporaryDirectory() as folder:
                jobs = [Job(tools, pathlib.Path(folder), framework, python, variables, record) for record in (False, True)]
                steps = max(1, int(SECONDS_A_TURN / (jobs[0].turn(20) / 20)))
                jobs[1].turn(20)
                seconds = []
                for turn in range(TURNS):
                    order = jobs if turn % 2 else jobs[::-1]
                    spent = {job: job.turn(steps) for job in order}
                    seconds.append([spent[job] for job in jobs])
                for job in jobs:
                    job.end()
                ratios = [recorded / alone for alone, recorded in seconds]
                error = 1.25 * statistics.stdev(ratios) / TURNS ** 0.5
                a_step = statistics.median(alone for alone, _ in seconds) / steps * 1e3
                print(f"| {framework} | {allocator} | {TURNS * steps:,} | {a_step:.2f} ms | {events_in(tools, jobs[1].recording)} | {statistics.median(ratios):.3f} ± {error:.3f} |", flush=True)


if __name__ == "__main__":
    main()
