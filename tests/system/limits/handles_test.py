#!/usr/bin/env python3
"""Handles and lifetimes under a limit: two threads at the same memory at once, and more exports than a table has entries for."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from limits_test import BIN, MIB, Scene  # noqa: E402

NODE = "T4:16GiB:context=64MiB"
ROUNDS = 4  # of a race whose threads are held; ten times as many at random

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
    def race(self, pair, hold=None):
        """Yields after each round, and at the end, what the device holds at most, what it holds, and what the book says, in MiB.

        `hold`: as RATION_SIM_HOLD: in which of the driver's functions a thread is held and overtaken by the other.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.environment.update(RATION_SIM_DIR=folder, RATION_RUNTIME_DIR=folder, RATION_SIM_HOLD=hold or "")
            program = subprocess.Popen([BIN / "ration", "run", "--name", "race", f"--sim={NODE}", "--limit", "1000MiB", "--", BIN / "ration-workload", "race",
                                        pair, "--rounds", str(ROUNDS if hold else 10 * ROUNDS)], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True)
            try:
                for line in program.stdout:
                    if hold or line == "ended\n":
                        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=NODE), capture_output=True,
                                              text=True, check=True)
                        device = json.loads(told.stdout)["devices"][0]
                        yield device["peak_bytes"] // MIB, (device["total_bytes"] - device["free_bytes"]) // MIB, self.used("race") // MIB
                    program.stdin.write("\n")
                    program.stdin.flush()
            finally:
                program.communicate()

    def holds(self, pair, *functions, moves=False, at_the_end=64):
        """At random, and with one thread held in a function of the driver, before and after its work. `moves`: managed memory need not be on the device.
        `at_the_end`: MiB in the book then, as a rule those of a context."""
        for hold in (None, *(f"{function}:{when}=10ms" for function in functions if ":" not in function for when in ("before", "after")),
                     *(function for function in functions if ":" in function)):
            with self.subTest(hold=hold):
                looks = list(self.race(pair, hold))
                self.assertEqual(len(looks), ROUNDS + 1 if hold else 1)
                for peak, held, booked in looks:
                    self.assertLessEqual(peak, 1000)
                    if moves:
                        self.assertLessEqual(held, booked)
                    else:
                        self.assertEqual(held, booked)
                self.assertEqual(looks[-1][2], at_the_end)

    def test_a_handle_that_is_retained_while_another_thread_unmaps_the_memory_keeps_its_charge(self):
        self.holds("retain-unmap", "cuMemRetainAllocationHandle", "cuMemUnmap")

    def test_memory_that_is_mapped_while_another_thread_releases_its_handle_keeps_its_charge(self):
        self.holds("map-release", "cuMemMap", "cuMemRelease")

    def test_memory_that_is_exported_while_another_thread_releases_its_handle_keeps_its_charge(self):
        self.holds("export-release", "cuMemExportToShareableHandle", "cuMemRelease")

    def test_memory_that_is_imported_while_another_thread_gives_it_up_keeps_its_charge(self):
        self.holds("import-release", "cuMemImportFromShareableHandle", "cuMemRelease")

    def test_memory_that_is_imported_under_a_handle_that_another_thread_releases_keeps_its_charge(self):
        self.holds("import-reuse", "cuMemRelease", "cuMemImportFromShareableHandle")

    def test_memory_that_is_imported_while_its_descriptor_becomes_another_one_keeps_its_charge(self):
        self.holds("import-swap", "cuMemImportFromShareableHandle")

    def test_what_two_threads_free_at_once_is_given_back_once(self):
        self.holds("free-free", "cuMemFree")

    def test_what_is_taken_where_another_thread_frees_keeps_its_charge(self):
        self.holds("free-alloc", "cuMemFree")

    def test_a_small_block_beside_one_that_another_thread_frees_takes_no_granule_that_is_not_charged(self):
        self.holds("share-free", "cuMemAlloc")

    def test_managed_memory_is_not_prefetched_while_another_thread_frees_it(self):
        self.holds("prefetch-free", "cuMemFree", "cuMemPrefetchAsync", moves=True)

    def test_the_room_of_managed_memory_is_not_taken_before_it_is_free(self):
        self.holds("take-free", "cuMemFree", moves=True)

    def test_a_prefetch_brings_no_more_of_a_block_that_took_the_place_of_another(self):
        self.holds("prefetch-reuse", "cuMemPrefetchAsync", "cuMemAllocManaged", moves=True)

    def test_managed_memory_beyond_the_limit_is_not_prefetched_before_it_is_known(self):
        self.holds("managed-prefetch", "cuMemAllocManaged", "cuMemAdvise", moves=True)

    def test_managed_memory_beyond_the_limit_stays_on_the_host_whatever_is_advised_before_it_is_known(self):
        self.holds("managed-advise", "cuMemAllocManaged", "cuMemAdvise", moves=True)

    def test_managed_memory_that_makes_room_is_not_brought_back_by_a_launch(self):
        self.holds("evict-launch", "cuMemAdvise", "cuMemPrefetchAsync", moves=True)

    def test_managed_memory_that_makes_room_is_not_brought_back_by_a_prefetch(self):
        self.holds("evict-prefetch", "cuMemAdvise", "cuMemPrefetchAsync", moves=True)

    def test_the_room_of_managed_memory_is_not_taken_before_it_has_left(self):
        self.holds("evict-take", "cuMemAdvise", "cuMemPrefetchAsync", moves=True)

    def test_memory_that_is_taken_while_another_thread_destroys_its_context_goes_with_it(self):
        self.holds("destroy-alloc", "cuCtxDestroy", "cuMemAlloc")

    def test_memory_that_is_taken_while_another_thread_resets_the_context_goes_or_stays_charged(self):
        self.holds("reset-alloc", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxGetState", "cuMemAlloc", at_the_end=0)

    def test_memory_that_another_process_opens_while_its_owner_frees_it_keeps_its_charge(self):
        self.holds("open-free", "cuIpcOpenMemHandle", "cuIpcOpenMemHandle:after=20ms;cuMemFree:before=5ms")

    def test_an_export_beyond_the_table_is_a_denial_that_names_it_and_room_comes_back(self):
        program = subprocess.Popen([BIN / "ration", "run", "--name", "many", f"--sim={NODE}", "--limit", "8GiB", "--", sys.executable, "-c", EXPORTS, "2049"],
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.communicate)
        self.assertEqual(program.stdout.readline(), "2048 2 0\n")
        why = self.ration("why", "many").stdout
        self.assertIn("all 2048 entries of the guard's table for cuMemExportToShareableHandle were in use", why)
        self.assertEqual(json.loads(self.ration("why", "many", "--json").stdout)["data"]["reason"], "table_full")


if __name__ == "__main__":
    unittest.main()
