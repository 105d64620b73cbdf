#!/usr/bin/env python3
"""How many jobs run on one card at once without anybody failing, by what keeps them apart. Prints two tables.

The jobs hold 0.6 GiB all the time and 1.2 GiB at their peaks. `grab` takes memory as TensorFlow does by default, `grow` as
TensorFlow with growth (sim/workload/allocators.cpp). All stand at their peak at the same time, then run on together; a
number counts only if every one of them finished.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/release/bin").resolve()
GIB = 1 << 30
JOB = ["--steady", "0.6GiB", "--peak", "1.2GiB", "--steps", "5", "--rendezvous"]
LIVE = 1.2  # GiB a job at its peak


class Card:
    """A simulated card in a folder of its own."""

    def __init__(self, node):
        self.folder = tempfile.TemporaryDirectory()
        self.node = node
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "CUDA_"))}
        self.environment.update(RATION_SIM=node, RATION_SIM_DIR=self.folder.name, RATION_RUNTIME_DIR=self.folder.name)

    def ration(self, *arguments):
        return subprocess.run([BIN / "ration", *arguments], env=self.environment, capture_output=True, text=True, check=True).stdout

    def total(self):
        return json.loads(self.ration("ps", f"--sim={self.node}", "-o", "json"))["devices"][0]

    def start(self, kind, seed, limit=None, where=(), **more):
        job = [BIN / "ration-workload", kind, *JOB, "--seed", str(seed)]
        environment = dict(self.environment, **more)
        if limit or where:
            where = where or ("--limit", f"{limit >> 20}MiB")
            job = [BIN / "ration", "run", f"--sim={self.node}", *where, "--", *job]
        else:
            environment["LD_LIBRARY_PATH"] = str(BIN.parent / "sim")
        return subprocess.Popen(job, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def says(job, word):
    for line in job.stdout:
        if line.strip() == word:
            return True
    return False


def go_on(job):
    try:
        os.write(job.stdin.fileno(), b"\n")
    except BrokenPipeError:
        pass  # it has ended, which its exit code tells


def together(jobs):
    """Everybody to the peak, then on to the end; whether all came through."""
    good = all([says(job, "peak") for job in jobs])
    for job in jobs:
        go_on(job)
    good = all([says(job, "done") for job in jobs]) and good
    for job in jobs:
        job.stdin.close()
        good = job.wait() == 0 and good
        job.stdout.close()
    return good


def most(start, at_most=14):
    """The largest number of jobs that all finish."""
    count = 0
    while count < at_most and together([start(count + 1, seed) for seed in range(count + 1)]):
        count += 1
    return count


def main():
    card = Card("T4:16GiB")
    device = card.total()
    rows = [("no limit", "grab", most(lambda n, seed: card.start("grab", seed))),
            ("device visibility only", "grab", most(lambda n, seed: card.start("grab", seed, CUDA_VISIBLE_DEVICES=device["uuid"]))),
            ("growth only", "grow", most(lambda n, seed: card.start("grow", seed))),
            ("ration, the card shared equally", "grab", most(lambda n, seed: card.start("grab", seed, device["total_bytes"] // n))),
            ("ration, the card shared equally", "grow", most(lambda n, seed: card.start("grow", seed, device["total_bytes"] // n)))]
    print("jobs of 0.6 GiB (peaks of 1.2 GiB) at once on a simulated 16 GiB T4, nobody failing")
    print(f"{'kept apart by':<34} {'kind':<6} {'jobs':>4}   known figure")
    known = {"no limit": "1", "device visibility only": "1", "growth only": "3-4"}
    for name, kind, jobs in rows:
        print(f"{name:<34} {kind:<6} {jobs:>4}   {known.get(name, '5 or more')}")

    card = Card("A30:24GiB")
    total = card.total()["total_bytes"] / GIB
    before = most(lambda n, seed: card.start("grab", seed), 8)
    card.ration("split", f"--sim={card.node}", "0", "--into", "4")
    # Two light jobs to a slice: they share its limit, so they grow rather than grab.
    pairs = []
    for part in range(4):
        command = [BIN / "ration", "run", f"--sim={card.node}", "--slice", f"0.{part}", "--", sys.executable, __file__, "--pair", str(BIN), str(part)]
        pairs.append(subprocess.Popen(command, env=card.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    at_peak = all([says(pair, "peak") for pair in pairs])
    used = card.total()
    for pair in pairs:
        go_on(pair)
    finished = all([pair.wait() == 0 for pair in pairs])
    after = 8 if at_peak and finished else 0
    print("\none 24 GiB card, eight light jobs: before, and in four slices of 6 GiB with two jobs each")
    print(f"{'':<10} {'jobs at once':>12} {'of the card in use by tensors':>30} {'held':>6}")
    print(f"{'before':<10} {before:>12} {before * LIVE / total:>30.0%} {'100%':>6}")
    print(f"{'slices':<10} {after:>12} {after * LIVE / total:>30.0%} {1 - used['free_bytes'] / used['total_bytes']:>6.0%}")


def pair():
    """Inside a slice: two jobs that stand at their peak together."""
    binaries, part = pathlib.Path(sys.argv[2]), int(sys.argv[3])
    jobs = [subprocess.Popen([binaries / "ration-workload", "grow", *JOB, "--seed", str(10 * part + seed)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True) for seed in range(2)]
    good = all([says(job, "peak") for job in jobs])
    print("peak" if good else "failed", flush=True)
    sys.stdin.readline()
    for job in jobs:
        go_on(job)
    good = all([says(job, "done") for job in jobs]) and good
    for job in jobs:
        job.stdin.close()
        good = job.wait() == 0 and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pair"]:
        pair()
    main()
