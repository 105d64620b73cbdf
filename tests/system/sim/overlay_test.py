#!/usr/bin/env python3
"""Folders on overlayfs, as in most containers: a living program counts, and one that has ended does not."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from waiting import until  # noqa: E402

BIN = pathlib.Path(os.environ["BUILD_BIN"])
NODE_TEST = pathlib.Path(__file__).with_name("node_test.py")
ENTER = """mount -t tmpfs disk "$0" && cd "$0" && mkdir lower upper work both && mount -t overlay both -o lowerdir=lower,upperdir=upper,workdir=work both &&
mkdir -m 700 both/tmp && export TMPDIR="$0/both/tmp" && exec "$@" """
NODE_TESTS = ["test_processes_share_the_device_and_run_out_of_it_together", "test_a_killed_process_gives_everything_back",
              "test_the_peak_counts_nobody_that_has_died", "test_a_process_that_executes_another_program_gives_everything_back"]

# Takes 1 GiB and starts a child that never touches the driver and outlives it. Prints both numbers.
PARENT = """
import ctypes, os, signal
cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 30)) == 0
child = os.fork()
if child: print(os.getpid(), child, flush=True)
signal.pause()
"""


class Inside(unittest.TestCase):
    """Runs on an overlayfs of its own; see Overlay."""

    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "CUDA_"))}
        self.environment.update(RATION_RUNTIME_DIR=str(folder / "runtime"), RATION_SIM_DIR=str(folder / "sim"), RATION_STATE_DIR=str(folder / "state"))
        (folder / "sim").mkdir(mode=0o700)

    def start(self, name, *command):
        line = [BIN / "ration", "run", "--sim=T4", "--name", name, "--limit", "4GiB", "--", *command]
        process = subprocess.Popen(line, env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        return process, process.stdout.readline()

    def used(self):
        done = subprocess.run([BIN / "ration", "ps", "--sim=T4", "--json"], env=self.environment, capture_output=True, text=True)
        rows = json.loads(done.stdout)
        return {row["workload"]: row["used_bytes"] >> 30 for row in rows["data"]}

    def processes(self):
        truth = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM="T4"), capture_output=True, text=True)
        return json.loads(truth.stdout)["devices"][0]["processes"]

    def test_programs_that_start_later_leave_the_others_their_memory(self):
        for name in ("first", "second", "third"):
            self.assertIn("holding", self.start(name, BIN / "ration-workload", "hold", "1GiB")[1])
        self.assertEqual(self.used(), {"first": 1, "second": 1, "third": 1})
        self.assertEqual(len(self.processes()), 3)

    def test_a_child_does_not_keep_what_its_parent_held(self):
        _, line = self.start("shell", "sh", "-c", f'"{sys.executable}" -c "$0"; sleep 1000', PARENT)
        parent, child = map(int, line.split())
        self.addCleanup(os.kill, child, signal.SIGKILL)
        self.assertEqual(self.used(), {"shell": 1})
        os.kill(parent, signal.SIGKILL)
        until(lambda: not self.processes(), "the memory of the parent is free")
        self.assertEqual(self.used(), {"shell": 0})
        os.kill(child, 0)  # lives

    def test_doctor_says_what_is_different_there(self):
        done = subprocess.run([BIN / "ration", "doctor", "--only", "folders", "--json"], env=self.environment, capture_output=True, text=True)
        found = {row["check"]: row for row in json.loads(done.stdout)["data"]}
        for check in ("folders.runtime", "folders.sim"):
            self.assertEqual(found[check]["result"], "WARN", found[check])
            self.assertIn("closes all its descriptors", found[check]["message"])


class Overlay(unittest.TestCase):
    def test_everything(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(os.rmdir, folder)
        if subprocess.run(["unshare", "-rm", "sh", "-c", ENTER, folder, "true"], capture_output=True).returncode != 0:
            self.skipTest("no overlayfs can be mounted here")
        for script, tests in ((NODE_TEST, [f"Node.{test}" for test in NODE_TESTS]), (__file__, ["Inside"])):
            done = subprocess.run(["unshare", "-rm", "sh", "-c", ENTER, folder, sys.executable, "-W", "ignore", script, *tests], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("Ran 0 tests", done.stderr)


if __name__ == "__main__":
    unittest.main(defaultTest=None if len(sys.argv) > 1 else "Overlay")
