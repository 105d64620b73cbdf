#!/usr/bin/env python3
"""Handles and lifetimes under a limit: two threads at the same memory at once, and more exports than a table has entries for."""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from limits_test import BIN, MIB, Scene  # noqa: E402

NODE = "T4:16GiB:context=64MiB"

# Takes and exports 2 MiB so many times, says what the last answer was, frees all, and exports once more.
EXPORTS = """
import ctypes, os, struct, sys
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
context, handle, descriptor = c_void_p(), c_uint64(), c_int()
device_memory = ctypes.create_string_buffer(struct.pack("iiii", 1, 1, 1, 0), 40)
for answer in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(byref(context), 0), cuda.cuCtxSetCurrent(context)): assert answer == 0
taken = []
def export():
    assert cuda.cuMemCreate(byref(handle), c_size_t(2 << 20), device_memory, c_uint64(0)) == 0
    taken.append(c_uint64(handle.value))
    answer = cuda.cuMemExportToShareableHandle(byref(descriptor), handle, 1, c_uint64(0))
    if answer == 0: os.close(descriptor.value)
    return answer
answers = [export() for _ in range(int(sys.argv[1]))]
for one in taken: assert cuda.cuMemRelease(one) == 0
print(answers.index(2) if 2 in answers else len(answers), answers[-1], export(), flush=True)
sys.stdin.read()
"""


class Handles(Scene):
    def device(self):
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=NODE), capture_output=True, text=True, check=True)
        return json.loads(told.stdout)["devices"][0]

    def race(self, pair, rounds=40):
        """Returns the most that the device held, what it holds when all was given back, and what the book says then, in MiB."""
        program = subprocess.Popen([BIN / "ration", "run", "--name", "race", f"--sim={NODE}", "--limit", "1000MiB", "--", BIN / "ration-workload", "race", pair,
                                    "--rounds", str(rounds)], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.communicate)
        self.assertEqual(program.stdout.readline(), "ended\n")
        device = self.device()
        return device["peak_bytes"] // MIB, (device["total_bytes"] - device["free_bytes"]) // MIB, self.used("race") // MIB

    def holds(self, pair):
        peak, held, booked = self.race(pair)
        self.assertLessEqual(peak, 1000)
        self.assertEqual((held, booked), (64, 64))

    def test_a_handle_that_is_retained_while_another_thread_unmaps_the_memory_keeps_its_charge(self):
        self.holds("retain-unmap")

    def test_memory_that_is_mapped_while_another_thread_releases_its_handle_keeps_its_charge(self):
        self.holds("map-release")

    def test_memory_that_is_exported_while_another_thread_releases_its_handle_keeps_its_charge(self):
        self.holds("export-release")

    def test_memory_that_is_imported_while_another_thread_gives_it_up_keeps_its_charge(self):
        self.holds("import-release")

    def test_what_two_threads_free_at_once_is_given_back_once(self):
        self.holds("free-free")

    def test_managed_memory_that_is_freed_while_another_thread_prefetches_it_is_given_back_once(self):
        self.holds("prefetch-free")

    def test_memory_that_is_taken_while_another_thread_destroys_its_context_goes_with_it(self):
        self.holds("destroy-alloc")

    def test_memory_that_is_taken_while_another_thread_resets_the_context_goes_or_stays_charged(self):
        self.holds("reset-alloc")

    def test_memory_that_another_process_opens_while_its_owner_frees_it_keeps_its_charge(self):
        peak, held, booked = self.race("open-free")
        self.assertLessEqual(peak, 1000)
        self.assertEqual(held, booked)

    def test_an_export_beyond_the_table_is_a_denial_that_names_it_and_room_comes_back(self):
        program = subprocess.Popen([BIN / "ration", "run", "--name", "many", f"--sim={NODE}", "--limit", "8GiB", "--", sys.executable, "-c", EXPORTS, "2049"],
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.communicate)
        self.assertEqual(program.stdout.readline(), "2048 2 0\n")
        why = self.ration("why", "many").stdout
        self.assertIn("all 2048 entries of the guard's table behind cuMemExportToShareableHandle were in use", why)
        self.assertEqual(json.loads(self.ration("why", "many", "--json").stdout)["data"]["reason"], "table_full")


if __name__ == "__main__":
    unittest.main()
