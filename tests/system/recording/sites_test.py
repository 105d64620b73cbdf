#!/usr/bin/env python3
"""Call sites: each request of a recording has the functions that led to it, whatever stood on the stack at that place before."""
import os
import pathlib
import subprocess
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


if __name__ == "__main__":
    unittest.main()
