#!/usr/bin/env python3
"""Ranges and marks of NVTX in a recording. NVTX itself is a header; what it does in a program is done here by hand: the library that NVTX_INJECTION64_PATH names is opened and puts its functions in NVTX's tables."""
import json
import os
import subprocess
import sys
import unittest

from recorded import BIN, MIB, Recorded

PROGRAM = """
import ctypes, os, sys, threading
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_uint, c_uint16, c_uint32, c_uint64, c_void_p, c_wchar_p, cast

# nvtxDetail/nvtxTypes.h: arrays of pointers to the places where NVTX keeps its functions, by module.
CORE, CORE2 = 1, 5
places = {CORE: (c_void_p * 16)(), CORE2: (c_void_p * 16)()}
tables = {module: (c_void_p * 16)(*[ctypes.addressof(of) + 8 * at if at else None for at in range(16)]) for module, of in places.items()}
@CFUNCTYPE(c_int, c_int, POINTER(c_void_p), POINTER(c_uint))
def functions(module, out, size):
    if module not in tables:
        return 0
    out[0], size[0] = ctypes.addressof(tables[module]), 16
    return 1
class Callbacks(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("functions", c_void_p)]
callbacks = Callbacks(16, cast(functions, c_void_p))
@CFUNCTYPE(c_void_p, c_uint32)
def table(number):
    return ctypes.addressof(callbacks) if number == 1 else None
class Attributes(ctypes.Structure):
    _fields_ = [("version", c_uint16), ("size", c_uint16), ("category", c_uint32), ("colour_type", c_int32), ("colour", c_uint32), ("payload_type", c_int32),
                ("reserved", c_int32), ("payload", c_uint64), ("message_type", c_int32), ("message", c_void_p)]
kept = []
def attributes(text, kind=1):
    kept.append(text)
    return byref(Attributes(3, 48, 0, 0, 0, 0, 0, 0, kind, text if kind == 3 else cast(text, c_void_p)))
def attach():
    path = os.environ.get("NVTX_INJECTION64_PATH")
    return ctypes.CDLL(path).InitializeInjectionNvtx2(table) if path else None
def of(module, number, result, *arguments):
    place = places[module][number]
    return CFUNCTYPE(result, *arguments)(place) if place else lambda *_: None
attached = attach()
print("attached", attached)
mark, start, end = of(CORE, 2, None, c_char_p), of(CORE, 5, c_uint64, c_char_p), of(CORE, 7, None, c_uint64)
push_ex, push, push_wide, pop = of(CORE, 8, c_int, c_void_p), of(CORE, 9, c_int, c_char_p), of(CORE, 10, c_int, c_wchar_p), of(CORE, 11, c_int)
domain_push, domain_pop = of(CORE2, 4, c_int, c_void_p, c_void_p), of(CORE2, 5, c_int, c_void_p)
register, domain_of = of(CORE2, 10, c_void_p, c_void_p, c_char_p), of(CORE2, 12, c_void_p, c_char_p)

cuda = ctypes.CDLL("libcuda.so.1")
def begin():
    context = c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
def take(mib):
    address = c_uint64()
    assert cuda.cuMemAlloc_v2(byref(address), c_size_t(mib << 20)) == 0
    return address.value
def give(address):
    assert cuda.cuMemFree_v2(c_uint64(address)) == 0
def on_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
"""

PEAK = """
pop()                                   # of a range that nobody began
on_thread(lambda: push(b"worker"))
push(b"epoch 3")                        # before the first call of the driver
begin()
push_ex(attributes(b"forward"))
give(take(2))
pop()
push_wide("r\\u00fcckw\\u00e4rts")
library = domain_of(b"NCCL")
domain_push(library, attributes(register(library, b"all-reduce"), 3))
whole_run = start(b"whole run")
on_thread(lambda: give(take(1)))
peak = take(100)
mark(b"here")
on_thread(lambda: end(whole_run))
give(peak)
pop(), pop(), domain_pop(library)
"""


class Nvtx(Recorded):
    def run_program(self, text, *options, environment=None):
        done = subprocess.run([*self.run_line(*options), sys.executable, "-c", PROGRAM + text], env=environment or self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def asked(self, *arguments):
        return subprocess.run([BIN / "ration", *arguments], env=self.environment, capture_output=True, text=True)

    def test_the_peak_has_the_ranges_that_were_open(self):
        done = self.run_program(PEAK)
        self.assertIn("attached 1", done.stdout)
        self.assertNotIn("NVTX", done.stderr)
        held = self.inspected()["held"][0]
        names = [each["names"] for each in held["ranges"]]
        self.assertEqual(names, [["epoch 3", "rückwärts", "all-reduce", "whole run"], ["worker"]])
        self.assertNotEqual(held["ranges"][0]["thread"], held["ranges"][1]["thread"])
        told = self.asked("inspect", self.file).stdout
        self.assertIn("  inside epoch 3 › rückwärts › all-reduce › whole run\n  inside worker\n", told)
        self.assertEqual([each["text"] for each in self.inspected()["marks"]], ["here"])
        kinds = [event["kind"] for event in self.recording().events if event["kind"].startswith("range")]
        self.assertEqual((kinds.count("range_began"), kinds.count("range_ended")), (6, 6))

    def slices(self):
        """Names of the ranges as they began, and as they ended, by the export for Chrome."""
        self.assertEqual(self.asked("export", self.file, "--format", "chrome", "-o", self.folder / "trace.json").returncode, 0)
        open_by_thread, opened, closed = {}, [], []
        for event in json.loads((self.folder / "trace.json").read_text())["traceEvents"]:
            stack = open_by_thread.setdefault((event["pid"], event.get("tid")), [])
            if event["ph"] == "B":
                opened.append(event["name"])
                stack.append(event["name"])
            elif event["ph"] == "E":
                closed.append(stack.pop())
        return opened, closed

    def test_timelines_have_each_range_as_a_slice(self):
        self.run_program(PEAK)
        self.assertEqual(self.slices()[1], ["forward", "whole run", "rückwärts", "epoch 3", "all-reduce"])

    def test_short_ranges_without_an_event_leave_nothing(self):
        self.run_program("""
import time
begin()
library = domain_of(b"library")
push(b"outer")
for number in range(5000):
    push(b"empty"), domain_push(library, attributes(b"inside")), domain_pop(library), pop()
push(b"full"), push(b"empty"), pop(), give(take(1)), pop()
push(b"crossing"), domain_push(library, attributes(b"crossed")), pop(), give(take(1)), domain_pop(library)
push(b"beside"), on_thread(lambda: (begin(), give(take(1)))), pop()
push(b"marked"), mark(b"here"), pop()
push(b"long"), time.sleep(0.01), pop()
for depth in range(5000): push(b"deep")
for depth in range(5000): pop()
pop()
""")
        opened, closed = self.slices()
        self.assertEqual(sorted(opened), sorted(closed))
        # The system may let another program run for more than a millisecond inside a few.
        self.assertLess(opened.count("empty") + opened.count("inside"), 500)
        self.assertLess(0, opened.count("deep"))
        once = [name for name in opened if name not in ("empty", "inside", "deep")]
        self.assertEqual(once, ["outer", "full", "crossing", "crossed", "beside", "marked", "long"])
        self.assertEqual(self.inspected()["lost"], 0)

    def test_a_range_in_which_a_program_is_killed_is_there(self):
        killed = subprocess.run([*self.run_line(), sys.executable, "-c", PROGRAM + """
begin()
push(b"outer"), push(b"before"), pop(), push(b"at the end")
os.kill(os.getpid(), 9)
"""], env=self.environment, capture_output=True, text=True)
        self.assertEqual(killed.returncode, 137)
        opened = self.slices()[0]
        self.assertEqual((opened[0], opened[-1]), ("outer", "at the end"))

    def test_many_names_leave_the_recording_small_and_whole(self):
        self.run_program("""
begin()
for number in range(70000):
    push(b"call %d" % number)
    pop()
push(b"call 7"), take(3)
""")
        held = self.inspected()
        self.assertEqual(held["held"][0]["ranges"][0]["names"], ["call 7"])
        self.assertEqual(held["lost"], 0)
        self.assertLessEqual(len(self.recording().header["sites"]), 1 << 16)

    def test_a_moment_far_from_the_beginning_knows_what_was_open(self):
        # A reader begins at a snapshot, which has the open ranges.
        self.run_program("""
begin()
push(b"outer"), push(b"inner")
free, total = c_size_t(), c_size_t()
for _ in range(400000):
    cuda.cuMemGetInfo_v2(byref(free), byref(total))
pop()
take(100)
""")
        self.assertEqual(self.inspected()["held"][0]["ranges"][0]["names"], ["outer"])

    def test_a_tool_of_the_programs_keeps_its_place_and_the_recording_says_so(self):
        done = self.run_program("begin()\ntake(3)", environment=dict(self.environment, NVTX_INJECTION64_PATH=""))
        self.assertIn("attached 1", done.stdout)
        tool = self.folder / "libtool.so"
        subprocess.run([os.environ.get("CXX", "g++"), "-shared", "-o", tool, "-x", "c", "-"], input="int InitializeInjectionNvtx2(void* tables) { return 7; }", text=True, check=True)
        done = self.run_program("begin()\npush(b'range')\ntake(3)", environment=dict(self.environment, NVTX_INJECTION64_PATH=str(tool)))
        self.assertIn("attached 7", done.stdout)
        self.assertIn("NVTX ranges are not recorded", done.stderr)
        self.assertEqual(self.inspected()["held"][0]["ranges"], [])
        self.assertIn("NVTX ranges are not recorded", self.asked("inspect", self.file).stdout)

    def test_without_a_recording_nvtx_has_no_tool(self):
        line = [each for each in self.run_line() if each not in ("--record", self.file)]
        done = subprocess.run([*line, sys.executable, "-c", PROGRAM + "begin()\nprint(push(b'range'))"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.stdout, "attached None\nNone\n")

    def test_in_a_process_without_the_guard_it_does_nothing(self):
        library = BIN.parent / "shim/libration-nvtx.so"
        done = subprocess.run([sys.executable, "-c", f"import ctypes; print(ctypes.CDLL({str(library)!r}).InitializeInjectionNvtx2(None))"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.stdout, "0\n", done.stderr)
        needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True).stdout
        self.assertNotIn("NEEDED", needed)


if __name__ == "__main__":
    unittest.main()
