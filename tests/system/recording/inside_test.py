#!/usr/bin/env python3
"""A program that records itself (`ration.record`): what it held before, what it and its children did, and nothing after."""
import os
import subprocess
import sys
import unittest

from recorded import BIN, HERE, MIB, Recorded

SOURCE = HERE.parents[2]

START = """
import ctypes, os, subprocess, sys
from ctypes import byref, c_size_t, c_uint64, c_void_p
import ration
cuda = ctypes.CDLL("libcuda.so.1")
def begin():
    context = c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
def take(mib, function=cuda.cuMemAlloc_v2, *more):
    address = c_uint64()
    assert function(byref(address), c_size_t(mib << 20), *more) == 0
    return address.value
def give(address):
    assert cuda.cuMemFree_v2(c_uint64(address)) == 0
def asked():
    free, total = c_size_t(), c_size_t()
    assert cuda.cuMemGetInfo_v2(byref(free), byref(total)) == 0
"""


CHILD = START.replace("import ration\n", "") + "begin(); take(4)"


class Inside(Recorded):
    def run_program(self, text, *, record=False, governed=True):
        environment = dict(self.environment, PYTHONPATH=f"{SOURCE}/libration/python", RATION_LIBRARY=str(BIN.parent / "lib/libration.so.1"))
        options = [*self.run_line()] if record else [BIN / "ration", "run", f"--sim={self.NODE}", "--limit", "1GiB", "--name", "self", "--"]
        done = subprocess.run([*(options if governed else ()), sys.executable, "-c", (f"CHILD = {CHILD!r}\n" + START if governed else "") + text, self.file], env=environment, capture_output=True, text=True)
        return done

    def checked(self, text):
        done = self.run_program(text)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(os.path.exists(f"{self.file}.parts"))
        recording = self.recording()
        held = 0
        for event in recording.events:
            held += event["charged"]
            if event["kind"] == "asked" and event["detail"] == 1:
                self.assertEqual((1 << 30) - event["bytes"], held)
        return recording

    def test_what_was_held_before_is_a_charge_and_what_comes_after_is_not_there(self):
        recording = self.checked("""
begin()
before, managed, pool = take(100), take(30, cuda.cuMemAllocManaged, 1), take(20, cuda.cuMemAllocAsync, None)
with ration.record(sys.argv[1]):
    ration.mark("inside")
    asked()
    kept = take(7)
    give(before)
    asked()
take(50)
""")
        requested = [event["bytes"] // MIB for event in recording.events if event["kind"] == "allocate" and event["address"]]
        self.assertEqual(requested, [7])
        given_back = [event["time"] for event in recording.events if event["kind"] == "free"][-1]
        rows = self.ration_line("inspect", self.file, "--at", f"{(given_back + 500) / 1e6:.6f}ms", "-o", "csv").stdout.splitlines()
        self.assertEqual(rows[0], "seconds,gpu,process,pid,use,bytes")
        after = {row.split(",")[4]: int(row.split(",")[5]) for row in rows[1:]}
        self.assertEqual((after["blocks"], "held before" in after), (8 * MIB, False))
        self.assertTrue(recording.header["complete"])
        self.assertEqual((recording.header["workload"], recording.header["devices"][0]["limit_bytes"]), ("self", 1 << 30))
        found = self.inspected()
        self.assertEqual([mark["text"] for mark in found["marks"]], ["inside"])
        self.assertEqual({part["use"] for part in found["held"][0]["parts"]}, {"blocks", "contexts", "managed", "pools", "held before"})
        told = self.ration_line("inspect", self.file).stdout
        self.assertIn("held before 100 MiB", told)
        self.assertNotIn("granules cost", told)

    def test_a_second_recording_and_one_before_the_first_call(self):
        recording = self.checked("""
recording = ration.record(sys.argv[1] + ".first").start()
begin()
take(5)
asked()
recording.stop()
recording.stop()
recording = ration.record(sys.argv[1]).start()
take(6)
asked()
# the end of the program ends it
""")
        self.assertEqual([event["bytes"] // MIB for event in recording.events if event["kind"] == "allocate" and event["address"]], [6])
        first = self.inspected(f"{self.file}.first")
        self.assertEqual([size["count"] for size in first["sizes"]], [1])

    def test_children_are_recorded_with_it(self):
        recording = self.checked("""
begin()
with ration.record(sys.argv[1]):
    take(3)
    child = [sys.executable, "-c", CHILD]
    pid = os.fork()
    if pid == 0:
        os.execv(child[0], child)
    os.waitpid(pid, 0)
    subprocess.run(child, check=True)
    pid = os.fork()
    if pid == 0:
        sys.exit()  # ends nothing of its parent's
    os.waitpid(pid, 0)
    take(5)
""")
        self.assertEqual(len(recording.header["processes"]), 3)
        self.assertEqual([event["bytes"] // MIB for event in recording.events if event["kind"] == "allocate" and event["address"]], [3, 4, 4, 5])

    def test_where_it_cannot_record_it_says_so(self):
        text = """
try:
    ration.record(sys.argv[1]).start()
except Exception as error:
    print(type(error).__name__, error)
"""
        self.assertIn("RuntimeError this process is not governed", self.run_program("import ration, sys\n" + text, governed=False).stdout)
        self.assertIn("RuntimeError this process is recorded already", self.run_program("begin()\n" + text, record=True).stdout)
        nowhere, folder, cut_off = self.folder / "nowhere/train.rec", self.folder / "folder", self.folder / "cut-off.rec"
        folder.mkdir()
        (self.folder / "cut-off.rec.parts").mkdir()
        for self.file, told in ((nowhere, "FileNotFoundError"), (folder, "not a file"), (cut_off, f"ration record -o {cut_off} makes")):
            self.assertIn(told, self.run_program(text).stdout)
        self.assertEqual({path.name for path in self.folder.iterdir()} & {"folder.parts", "cut-off.rec.parts"}, {"cut-off.rec.parts"})

    def test_after_a_kill_ration_record_makes_the_file(self):
        done = self.run_program("""
begin()
ration.record(sys.argv[1]).start()
take(9)
os.kill(os.getpid(), 9)
""")
        self.assertEqual(done.returncode, 137)
        self.assertEqual(self.inspected()["sizes"][0]["total_bytes"], 9 * MIB)
        told = self.ration_line("record", "-o", self.file)
        self.assertIn("0 lost", told.stderr)
        self.assertEqual([event["bytes"] // MIB for event in self.recording().events if event["kind"] == "allocate" and event["address"]], [9])
        again = self.ration_line("record", "-o", self.folder / "other.rec")
        self.assertIn("E1811", again.stderr)

    def ration_line(self, *arguments):
        return subprocess.run([BIN / "ration", *arguments], env=self.environment, capture_output=True, text=True)


if __name__ == "__main__":
    unittest.main()
