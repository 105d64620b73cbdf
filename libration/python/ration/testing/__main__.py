"""`python -m ration.testing -- COMMAND`: runs a test under a limit, in one of several places on each GPU; waits while
all places are taken.

It replaces `parallel_gpu_execute` of TensorFlow and XLA (`bazel test --run_under`) and reads the same variables. With
`parallel_gpu_execute`, each program limits itself; here, the limit applies to everything in the program.
"""
from __future__ import annotations

import argparse
import fcntl
import os
import sys
import tempfile
import time
from typing import List, Optional

import ration_command

from ..tf import config

_PAUSE_SECONDS = 0.05  # between two attempts to take a place


def _number(name: str) -> Optional[int]:
    """Returns a variable's whole number above 0, or None if it is not set."""
    text = os.environ.get(name, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) == 0:
        sys.exit(f"{name}={text} is not a whole number above 0. Nothing was started.")
    return int(text)


def _gpus() -> List[str]:
    """Returns the GPUs that tests use, as `ration run --gpu` takes them."""
    count = len(config.list_physical_devices("GPU"))
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    gpus = (named.split(",") if named else [str(number) for number in range(count)])[:count]
    wanted = _number("TF_GPU_COUNT")
    if wanted is not None and wanted > len(gpus):
        sys.exit(f"TF_GPU_COUNT={wanted}, but there are {len(gpus)} GPUs. Nothing was started.")
    if not gpus:
        sys.exit("There is no GPU for a test. Nothing was started.")
    return gpus[:wanted]


def _limit(typed: Optional[str], tests: int) -> str:
    """Returns the limit of one test: the typed limit, else the limit in TensorFlow's variable, else an equal part of
    the GPU."""
    mib = _number("TF_PER_DEVICE_MEMORY_LIMIT_MB")
    if typed is not None and mib is not None:
        sys.exit(f"--limit {typed} and TF_PER_DEVICE_MEMORY_LIMIT_MB={mib} both limit the test: leave one out. Nothing was started.")
    return typed or (f"{mib}MiB" if mib is not None else f"{100 // tests}%")


def _take_place(gpus: List[str], tests: int) -> str:
    """Takes a place that no other test has and returns its GPU. The place is free again when the test has ended.

    Fills the first place of every GPU before any second place."""
    folder = os.environ.get("RATION_RUNTIME_DIR") or os.path.join(tempfile.gettempdir(), f"ration-testing-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    while True:
        for place in range(tests):
            for gpu in gpus:
                file = os.open(os.path.join(folder, f"testing-{gpu}-{place}.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(file)
                    continue
                os.set_inheritable(file, True)
                return gpu
        time.sleep(_PAUSE_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ration.testing", description="Runs a test under a limit, in one of several places on each GPU.")
    parser.add_argument("--tests-per-gpu", type=int, metavar="N", help="tests that run at once on each GPU; default: TF_TESTS_PER_GPU, else 4")
    parser.add_argument("--limit", metavar="SIZE", help="limit of one test; default: TF_PER_DEVICE_MEMORY_LIMIT_MB, else an equal part of the GPU")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the test, after --")
    typed = parser.parse_args()
    tests = typed.tests_per_gpu if typed.tests_per_gpu is not None else _number("TF_TESTS_PER_GPU") or 4
    if not 1 <= tests <= 100:
        parser.error(f"a GPU has 1 to 100 tests at once, not {tests}")
    limit, gpus = _limit(typed.limit, tests), _gpus()
    gpu = _take_place(gpus, tests)
    program = ration_command.path()
    os.execvp(program, [program, "run", "--gpu", gpu, "--limit", limit, "--", *typed.command])


if __name__ == "__main__":
    main()
