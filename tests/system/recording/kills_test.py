#!/usr/bin/env python3
"""A program, its `ration run`, or both are killed at random: no event of a call that had returned is lost."""
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import time
import unittest

from recorded import BIN, Recorded

TRIALS = int(os.environ.get("RATION_TEST_KILLS", "40"))

# Counts, in a file that survives it, the calls that have returned.
PROGRAM = """
import ctypes, mmap, sys, threading
from ctypes import byref, c_size_t, c_uint64, c_void_p
file = open(sys.argv[1], "r+b")
counts = mmap.mmap(file.fileno(), 4096)
cuda = ctypes.CDLL("libcuda.so.1")
context = c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
def work(slot):
    cuda.cuCtxSetCurrent(context)
    place = ctypes.c_uint64.from_buffer(counts, 64 * slot)
    address = c_uint64()
    while True:
        assert cuda.cuMemAlloc_v2(byref(address), c_size_t(1 << 20)) == 0
        place.value += 1
        assert cuda.cuMemFree_v2(address) == 0
        place.value += 1
for slot in range(1, 3): threading.Thread(target=work, args=[slot], daemon=True).start()
counts[0] = 1
work(0 + 3)
"""


def kill(pid):
    """Kills a process and waits until it is dead."""
    process = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([process], [], [])
    os.close(process)


class Kills(Recorded):
    def counted(self, counts):
        data = counts.read_bytes()
        return sum(int.from_bytes(data[64 * slot:64 * slot + 8], "little") for slot in range(1, 4))

    def test_no_complete_event_is_lost(self):
        dice = random.Random(os.environ.get("RATION_TEST_SEED", "kills"))
        program = self.folder / "program.py"
        program.write_text(PROGRAM)
        total = 0
        for trial in range(TRIALS):
            victims = dice.choice(["program", "ration", "both"])
            counts = self.folder / f"counts-{trial}"
            counts.write_bytes(bytes(4096))
            self.file = self.folder / f"{trial}.rec"
            started = subprocess.Popen([*self.run_line("--name", f"t{trial}"), sys.executable, program, counts], env=self.environment, stderr=subprocess.DEVNULL)
            self.addCleanup(started.wait)
            self.addCleanup(started.kill)
            while counts.read_bytes()[0] == 0 and started.poll() is None:
                time.sleep(0.001)
            pid = int(pathlib.Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()[0])
            time.sleep(dice.random() * 0.05)
            if victims != "program":
                os.kill(started.pid, signal.SIGKILL)
            if victims == "ration":
                time.sleep(dice.random() * 0.02)
            kill(pid)
            started.wait()
            done = self.counted(counts)
            found = self.inspected()
            blocks = next(size for size in found["sizes"] if size["upto_bytes"] == 1 << 20)
            # Each of the three threads may have been between the end of a call and its count.
            self.assertIn(blocks["count"] + blocks["freed"] - done, range(0, 4), (victims, trial))
            self.assertEqual(found["lost"], 0)
            self.assertEqual(found["complete"], victims == "program")
            total += done
        self.assertGreater(total, 100 * TRIALS)

    def test_a_killed_ration_run_leaves_parts_that_a_later_run_replaces(self):
        started = subprocess.Popen([*self.run_line(), BIN / "ration-workload", "hold", "100MiB"], env=self.environment, stderr=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        started.stdout.readline()
        pid = int(pathlib.Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()[0])
        os.kill(started.pid, signal.SIGKILL)
        started.wait()
        found = self.inspected()
        self.assertFalse(found["complete"])
        self.assertEqual(found["held"][0]["bytes"] >> 20, 164)
        kill(pid)
        again = subprocess.run([*self.run_line(), BIN / "ration-workload", "total"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertTrue(self.inspected()["complete"])
        self.assertFalse(pathlib.Path(str(self.file) + ".parts").exists())


if __name__ == "__main__":
    unittest.main()
