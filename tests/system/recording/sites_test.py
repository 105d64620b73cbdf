#!/usr/bin/env python3
"""Call sites: each request of a recording has the functions that led to it, whatever stood on the stack at that place before."""
import json
import os
import pathlib
import random
import subprocess
import sys
import unittest

from recorded import BIN, MIB, Recorded

# Stacks of the same depth that differ in one function: `even` and `odd` have frames of the same size.
PROGRAM = r"""
#include <cstddef>
#include <thread>
#include <vector>
#include <unistd.h>
#include <sys/wait.h>
extern "C" int cuInit(unsigned), cuDevicePrimaryCtxRetain(void**, int), cuCtxSetCurrent(void*), cuMemAlloc_v2(unsigned long long*, std::size_t),
    cuMemFree_v2(unsigned long long), cuMemAllocAsync(unsigned long long*, std::size_t, void*);
extern "C" {
unsigned long long innermost(std::size_t bytes) { unsigned long long made = 0; cuMemAlloc_v2(&made, bytes); return made; }
unsigned long long even(std::size_t bytes) { unsigned long long made = innermost(bytes); return made; }
unsigned long long odd(std::size_t bytes) { unsigned long long made = innermost(bytes); return made; }
unsigned long long deep(int depth, std::size_t bytes) { return depth == 0 ? odd(bytes) : deep(depth - 1, bytes); }
void work(void* context, int thread) {
  cuCtxSetCurrent(context);
  for (int turn = 0; turn < 300; ++turn) {
    cuMemFree_v2(even(std::size_t(2) << 20));
    cuMemFree_v2(odd(std::size_t(3) << 20));
    cuMemFree_v2(deep(turn % 7, std::size_t(4 + turn % 7) << 20));
  }
}
void pooled() { unsigned long long made = 0; cuMemAllocAsync(&made, std::size_t(50) << 20, nullptr); }
void too_much() { innermost(std::size_t(100) << 30); }
}
int main() {
  void* context = nullptr;
  if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0) return 1;
  std::vector<std::thread> threads;
  for (int at = 0; at < 4; ++at) threads.emplace_back(work, context, at);
  for (auto& thread : threads) thread.join();
  work(context, 4);
  pooled();
  too_much();
  if (fork() == 0) _exit(0);
  int status = 0;
  wait(&status);
  return 0;
}
"""


class Sites(Recorded):
    def record(self, *program, sites=True):
        options = ("--sites", "native") if sites else ()
        done = subprocess.run([*self.run_line(*options), *program], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.recording()

    def functions(self, recording, event):
        return [line.partition(" (")[0] for line in recording.header["sites"][event["site"]].split("\n") if line]

    @classmethod
    def setUpClass(cls):
        cls.program = pathlib.Path(cls.enterClassContext(__import__("tempfile").TemporaryDirectory()), "stacks")
        source = cls.program.with_suffix(".cpp")
        source.write_text(PROGRAM)
        subprocess.run([os.environ.get("CXX", "g++"), "-O0", "-fno-omit-frame-pointer", source, "-o", cls.program, BIN.parent / "sim/libcuda.so.1", "-pthread"],
                       check=True)

    def test_each_request_has_the_functions_that_led_to_it(self):
        recording = self.record(self.program)
        counts = {}
        for event in recording.events:
            if event["kind"] != "allocate" or not event["address"] or event["bytes"] > 20 * MIB:
                continue
            size, functions = event["bytes"] // MIB, self.functions(recording, event)
            caller = functions[:functions.index("work")]
            expected = {2: ["innermost", "even"], 3: ["innermost", "odd"]}.get(size, ["innermost", "odd"] + ["deep"] * (size - 3))
            self.assertEqual(caller, expected)
            self.assertTrue("main" in functions or any("clone" in name or "thread" in name for name in functions), functions)
            counts[size] = counts.get(size, 0) + 1
        self.assertEqual({size: count for size, count in counts.items() if size < 4}, {2: 1500, 3: 1500})
        # One text for each different stack of a thread, of which the four threads have the same.
        self.assertLess(len(recording.header["sites"]), 60)

    def test_pools_denials_and_the_peak_have_theirs(self):
        recording = self.record(self.program)
        pool = [self.functions(recording, event) for event in recording.events if event["kind"] == "pool_grew"]
        self.assertTrue(pool and all(names[:2] == ["pooled", "main"] for names in pool), pool)
        found = self.inspected()
        self.assertEqual([row["site"].split(" ")[0] for row in found["denials"]], ["innermost"])
        self.assertIn("too_much (stacks+0x", found["denials"][0]["site"])
        self.assertIn("pooled (stacks+0x", next(row["site"] for row in found["held"][0]["largest"] if row["bytes"] == 50 * MIB))
        told = subprocess.run([BIN / "ration", "inspect", self.file], env=self.environment, capture_output=True, text=True).stdout
        self.assertIn("· pooled ← main ← ", told)

    def test_without_the_option_there_are_none(self):
        self.assertEqual(self.record(self.program, sites=False).header["sites"], [""])

    def test_without_a_recording_the_option_is_an_error(self):
        done = subprocess.run([BIN / "ration", "run", f"--sim={self.NODE}", "--sites", "native", "--", "true"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)


# Says of each block where Python itself saw the call: the innermost first, each with the line that its frame is at.
PYTHON = r"""
import ctypes, json, sys, threading
cuda = ctypes.CDLL("libcuda.so.1")
context, made, expected = ctypes.c_void_p(), ctypes.c_uint64(), {}
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
sizes = iter(range(1, 100_000))

def seen(size):
    frame, calls = sys._getframe(1), []
    while frame and len(calls) < 48:
        calls.append(f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})")
        frame = frame.f_back
    expected[size] = calls

def free():
    cuda.cuMemFree_v2(made)

class Größe:
    def nehmen(self, size=0):
        size = next(sizes) * 512; seen(size); assert cuda.cuMemAlloc_v2(ctypes.byref(made), ctypes.c_size_t(size)) == 0

        free()

def numbers():
    def inside():
        (lambda: Größe().nehmen())()
        yield 1
    yield from inside()

def work():
    assert cuda.cuCtxSetCurrent(context) == 0
    for _ in range(3):
        Größe(
        ).nehmen()
        list(numbers())
        sorted([2, 1], key=lambda each:
               Größe().nehmen() or each)

def deep(depth):
    return deep(depth - 1) if depth else work()

for depth in (0, 3, 100):
    deep(depth)
thread = threading.Thread(target=work)
thread.start()
thread.join()
for file, source in json.load(open(sys.argv[1])):
    exec(compile(source, file, "exec"), {"take": Größe().nehmen})
json.dump(expected, open(sys.argv[2], "w"))
"""


def random_source(chance):
    """A module whose functions call each other, at random lines, far from each other or spread over several."""
    lines = [""] * chance.choice((0, 3, 700))
    count = chance.randint(1, 6)
    for number in range(count):
        lines += [f"def call{number}(value):"] + [f"    value += {at}" for at in range(chance.choice((0, 2, 90)))] + [""] * chance.choice((0, 1, 40, 300))
        called = "take()" if number == 0 else f"call{number - 1}(value)"
        lines += chance.choice(([f"    return {called}"], ["    return (value and", *[""] * chance.choice((0, 5, 200)), f"            {called},", "            value)"],
                                ["    try:", "        raise KeyError", "    except KeyError:", f"        {called}"], [f"    return [{called} for _ in (1, 2)]"]))
    return "\n".join([*lines, f"call{count - 1}(1)", ""])


@unittest.skipIf(not (3, 11) <= sys.version_info < (3, 14), "of this Python the frames are not known")
class PythonSites(Recorded):
    PYTHONS = [sys.executable, *os.environ.get("RATION_TEST_PYTHONS", "").split()]

    def record(self, python, *program):
        environment = self.environment | {"LD_LIBRARY_PATH": str(BIN.parent / "sim")}
        done = subprocess.run([*self.run_line("--sites", "python"), python, *program], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.recording()

    def test_each_request_has_the_calls_that_python_itself_sees(self):
        seed = random.randrange(1 << 30)
        chance = random.Random(seed)
        script, sources, expected = (self.folder / name for name in ("größe.py", "sources.json", "expected.json"))
        script.write_text(PYTHON)
        sources.write_text(json.dumps([[f"random{number}.py", random_source(chance)] for number in range(100)]))
        for python in self.PYTHONS:
            with self.subTest(python=python, seed=seed):
                recording = self.record(python, script, sources, expected)
                there = {str(event["bytes"]): recording.header["sites"][event["site"]].split("\n")
                         for event in recording.events if event["kind"] == "allocate" and event["address"]}
                self.assertEqual(there, json.loads(expected.read_text()))
                self.assertGreater(len(there), 150)

    def native(self, code):
        """A library of native code that calls the driver."""
        library, source = self.folder / "native.so", self.folder / "native.cpp"
        source.write_text("""#include <thread>
extern "C" int cuCtxSetCurrent(void*), cuMemAlloc_v2(unsigned long long*, unsigned long), cuMemFree_v2(unsigned long long);
""" + code)
        subprocess.run([os.environ.get("CXX", "g++"), "-shared", "-fPIC", "-O0", source, "-o", library, BIN.parent / "sim/libcuda.so.1"], check=True)
        return library

    def test_a_thread_that_goes_on_while_the_interpreter_ends_is_not_harmed(self):
        library = self.native("""
extern "C" void go_on(void* context, volatile int* begun) {
  cuCtxSetCurrent(context);
  for (unsigned long long made;; *begun = 1) { cuMemAlloc_v2(&made, 3 << 20); cuMemFree_v2(made); }
}
""")
        for python in self.PYTHONS * 5:
            self.record(python, "-c", f"""import ctypes, threading
cuda, context, begun = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
def thread(): ctypes.CDLL({str(library)!r}).go_on(context, ctypes.byref(begun))
for _ in range(4): threading.Thread(target=thread, daemon=True).start()
while not begun.value: pass
kept = [[object() for _ in range(100)] for _ in range(2000)]""")
            self.file.unlink()

    def test_a_thread_that_runs_no_python_has_its_native_calls(self):
        library = self.native("""
extern "C" void in_another_thread(void* context) { unsigned long long made; cuCtxSetCurrent(context); cuMemAlloc_v2(&made, 3 << 20); }
extern "C" void start(void* context) { std::thread(in_another_thread, context).join(); }
""")
        recording = self.record(sys.executable, "-c", f"""import ctypes
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
ctypes.CDLL({str(library)!r}).start(context)""")
        (site,) = (recording.header["sites"][event["site"]] for event in recording.events if event["bytes"] == 3 << 20)
        self.assertTrue(site.startswith("in_another_thread (native.so+0x"), site)


if __name__ == "__main__":
    unittest.main()
