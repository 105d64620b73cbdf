#!/usr/bin/env python3
"""What `import ration` costs a program on a machine with a (simulated) GPU: python3 bench/python/import_bench.py BUILD

The interpreter's start with and without it in turn, medians of 15. Prints one table: figure, measured, bound."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
ROUNDS, BOUND_MS = 15, 50


def main():
    with tempfile.TemporaryDirectory(prefix="ration") as folder:
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_", "PYTHON"))}
        own.update(RATION_SIM_DIR=folder, RATION_RUNTIME_DIR=folder)
        node = subprocess.run([BUILD / "bin/ration", "sim", "env", "--sim=T4", "-o", "json"], env=own, check=True, capture_output=True)
        own.update(json.loads(node.stdout)["data"]["sets"], PYTHONPATH=str(SOURCE / "libration/python"), RATION_LIBRARY=str(BUILD / "lib/libration.so.1"))

        def milliseconds(program):
            before = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], env=own, check=True)
            return (time.perf_counter() - before) * 1000

        times = {"pass": [], "import ration": []}
        for _ in range(ROUNDS):
            for program, taken in times.items():
                taken.append(milliseconds(program))
        governed = subprocess.run([sys.executable, "-c", "import ration, threading; print(ration.is_governed(), threading.active_count(), len(__import__('os').listdir('/proc/self/task')))"],
                                  env=own, check=True, capture_output=True, text=True).stdout.split()
    without, with_it = (statistics.median(taken) for taken in times.values())
    added = with_it - without
    print("\n| what | without | with | added | must be | |\n| --- | --- | --- | --- | --- | --- |")
    print(f"| import ration, governed: {governed[0]}, threads {governed[2]} | {without:.1f} ms | {with_it:.1f} ms | {added:.1f} ms | ≤ {BOUND_MS} ms, 1 thread | "
          f"{'ok' if added <= BOUND_MS and governed[::2] == ['True', '1'] else 'MISSED'} |")


if __name__ == "__main__":
    main()
