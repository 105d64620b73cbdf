#!/usr/bin/env python3
"""What a program is told of its GPU where others are promised a part of it, and what it can take, beside a real daemon."""
import os
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from limits.program import Program  # noqa: E402
from node.node_case import Case  # noqa: E402
from node_client import BIN, GIB, MIB, SOURCE  # noqa: E402

GRANULE = 2 * MIB
CUDA = "free, total, whole = c_size_t(), c_size_t(), c_size_t(); " \
       "assert cuda.cuMemGetInfo_v2(byref(free), byref(total)) == cuda.cuDeviceTotalMem_v2(byref(whole), 0) == 0; " \
       "answer = [total.value, free.value, whole.value]"
NVML = """
nvml = ctypes.CDLL("libnvidia-ml.so.1")
device, first, second = c_void_p(), (c_uint64 * 3)(), (c_uint64 * 5)(ctypes.sizeof(c_uint64 * 5) | 2 << 24)
assert nvml.nvmlInit_v2() == nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(device)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(device, first) == nvml.nvmlDeviceGetMemoryInfo_v2(device, second) == 0
answer = [list(first), list(second)[1:]]
"""


class Scene(Case):
    def run_it(self, name, *options):
        """A program of that name, with the first device's context."""
        program = Program(dict(self.environment, PYTHONPATH=str(SOURCE / "libration/python"), RATION_LIBRARY=str(BIN.parent / "lib/libration.so.1")),
                          [BIN / "ration", "run", *self.node.split(), "--name", name, *options, "--"])
        self.addCleanup(lambda: program.process.poll() is not None or program.end())
        return program

    def until_told(self, program, size, free):
        """By one function: between two of them the figures may move."""
        self.until(lambda: program.ask(CUDA)[:2] == [size, free], f"a size of {size / GIB:.2f} GiB, {free / GIB:.2f} of them free")

    def memory(self, program):
        """(size, free) by the driver's functions, once those of NVML and of the package `ration` are seen to say the same."""
        total, free, whole = program.ask(CUDA)
        first, second = program.ask(NVML)
        size, used, reserved = second[0], second[3], second[1]
        self.assertEqual({whole, first[0], size, program.ask("import ration; answer = ration.workload()['limit']")}, {total})
        self.assertEqual((first[1], second[2]), (free, free))
        self.assertEqual((first[1] + first[2], reserved + second[2] + used), (total, total), "the figures add up")
        return total, free

    def takes_all(self, program):
        """It can take what is told as free, and no granule more."""
        size, free = self.memory(program)
        self.assertEqual(program.ask(f"answer = take({free // MIB})[0]"), 0, f"{free / GIB:.2f} GiB are free, it is told")
        self.assertEqual(self.memory(program), (size, free % GRANULE))
        self.assertNotEqual(program.ask(f"answer = take({GRANULE // MIB})[0]"), 0, "nothing is left, it is told")
        return free


class Told(Scene):
    def test_beside_guarantees_the_size_is_the_limit_and_free_is_what_they_leave(self):
        self.holding("serve", "1GiB", "--limit", "10GiB", "--guarantee", "8GiB")
        program = self.run_it("train", "--limit", "15GiB")
        program.ask("start()")
        self.assertEqual(self.memory(program), (15 * GIB, 8 * GIB - 64 * MIB))
        self.takes_all(program)

    def test_the_first_call_is_told_what_later_ones_are(self):
        self.holding("serve", "1GiB", "--limit", "10GiB", "--guarantee", "8GiB")
        for turn in range(8):
            program = self.run_it(f"train-{turn}", "--limit", "15GiB")
            program.ask("start()")
            total, free, _ = program.ask(CUDA)
            self.assertEqual((total, free), (15 * GIB, 8 * GIB - 64 * MIB), f"start {turn}")
            program.end()
            self.until(lambda: f"train-{turn}" not in self.rows(), "it has ended")

    def test_who_raises_a_limit_is_told_of_a_framework_that_sized_itself_at_its_start(self):
        library = self.folder / "libtensorflow_framework.so.2"
        library.write_bytes(b"code")
        for name, opened in ("plain", None), ("train", library):
            program = self.run_it(name, "--limit", "4GiB")
            program.ask("start()")
            if opened:
                program.ask(f"import mmap, os; kept = mmap.mmap(os.open('{opened}', os.O_RDONLY), 4, prot=mmap.PROT_READ); answer = 0")
            for limit, raised in ("2GiB", False), ("6GiB", True):
                told = self.ration("set", *self.node.split(), name, "--limit", limit).stdout
                self.assertIn("(now).", told)
                self.assertEqual("TensorFlow in process" in told, raised and opened is not None, told)

    def test_without_a_limit_the_size_is_the_gpus(self):
        self.holding("serve", "1GiB", "--limit", "12GiB", "--guarantee", "8GiB")
        self.holding("other", "1GiB", "--limit", "12GiB")
        program = self.run_it("train")
        program.ask("start()")
        size, free = self.memory(program)
        self.assertEqual((size, free), (16 * GIB, 8 * GIB - GIB - 2 * 64 * MIB))
        self.takes_all(program)

    def test_a_granted_lease_is_as_large_as_was_waited_for(self):
        self.holding("serve", "1GiB", "--limit", "12GiB", "--guarantee", "4GiB")
        self.holding("other", "1GiB", "--limit", "12GiB")
        program = self.run_it("train", "--wait", "--limit", "10GiB")
        program.ask("start()")
        self.assertEqual(self.memory(program), (10 * GIB, 10 * GIB - 64 * MIB))
        self.takes_all(program)

    def test_what_a_guarantee_kept_is_free_when_it_ends(self):
        serve = self.holding("serve", "1GiB", "--limit", "10GiB", "--guarantee", "8GiB")
        program = self.run_it("train", "--limit", "15GiB")
        program.ask("start()")
        self.assertEqual(self.memory(program), (15 * GIB, 8 * GIB - 64 * MIB))
        serve.terminate()
        self.until_told(program, 15 * GIB, 15 * GIB - 64 * MIB)
        self.takes_all(program)

    def test_of_two_that_share_the_room_each_is_told_all_of_it_until_it_is_taken(self):
        self.holding("serve", "1GiB", "--limit", "10GiB", "--guarantee", "8GiB")
        first, second = self.run_it("first", "--limit", "15GiB"), self.run_it("second", "--limit", "15GiB")
        first.ask("start()")
        second.ask("start()")
        for each in (first, second):  # once each context is seen
            self.until_told(each, 15 * GIB, 8 * GIB - 2 * 64 * MIB)
        self.takes_all(second)
        self.until_told(first, 15 * GIB, 0)

    def test_without_the_daemon_free_is_what_the_limit_in_force_leaves(self):
        self.holding("serve", "1GiB", "--limit", "12GiB", "--guarantee", "8GiB")
        self.holding("other", "1GiB", "--limit", "12GiB")
        program = self.run_it("train", "--limit", "15GiB")
        program.ask("start()")
        self.assertEqual(self.memory(program)[0], 15 * GIB)
        limit = self.rows()["train"]["limit_bytes"]
        self.stop(signal.SIGKILL)  # no one raises the limit any more
        self.assertEqual(self.memory(program), (15 * GIB, limit - 64 * MIB))
        self.takes_all(program)
        self.start()
        self.row("train")
        self.until(lambda: program.ask(CUDA)[1] > 0, "the new daemon finds what is left")

    def test_a_lowered_limit_is_the_size_at_once(self):
        program = self.run_it("train", "--limit", "15GiB")
        program.ask("start()")
        for size in (3, 12):
            self.assertEqual(self.ration("set", "train", "--limit", f"{size}GiB", "--yes").returncode, 0)
            self.assertEqual(self.memory(program), (size * GIB, size * GIB - 64 * MIB))

    # ------------------------------------------------------------------------------------------------- before the start

    def started(self, *options):
        return self.ration("run", *self.node.split(), "--name", "train", *options, "--", "/bin/true")

    def test_run_says_before_the_start_what_it_cannot_take_and_for_whom_that_is_kept(self):
        self.holding("serve", "1GiB", "--limit", "10GiB", "--guarantee", "8GiB")
        for options, limit in ((("--limit", "15GiB"), "15.0 GiB"), ((), "16.0 GiB")):
            done = self.started(*options)
            self.assertEqual(done.returncode, 0, done.stderr)
            less = f"{float(limit.split()[0]) - 8:.2f} GiB"
            self.assertRegex(done.stderr, rf"^ration: 8\.00 GiB of the limit of {re.escape(limit)} can be allocated now on GPU 0, but {less} cannot: .*serve")
        self.assertEqual(self.started("--limit", "8GiB").stderr, "", "all of that limit can be taken")

    def test_require_limit_starts_only_with_the_whole_limit(self):
        self.assertEqual(self.started("--require-limit", "--limit", "15GiB").returncode, 0)
        serve = self.holding("serve", "1GiB", "--limit", "10GiB", "--guarantee", "8GiB")
        done = self.started("--require-limit", "--limit", "15GiB")
        self.assertEqual((done.returncode, "E1447" in done.stderr, "serve" in done.stderr), (6, True, True), done.stderr)
        self.assertEqual(self.until(lambda: "train" not in self.rows(), "it left nothing behind"), True)
        limit = re.search(r"--limit (\S+)", done.stderr.split("ration run", 1)[1]).group(1)
        fits = self.started("--require-limit", "--limit", limit)
        self.assertEqual((fits.returncode, fits.stderr), (0, ""), "what it said fits")
        self.assertEqual(self.started("--require-limit").returncode, 6, "without a limit it is the whole GPU")
        serve.terminate()
        serve.communicate()
        self.until(lambda: "serve" not in self.rows(), "it has ended")
        self.assertEqual(self.started("--require-limit", "--limit", "15GiB").returncode, 0)


class ATenantsLimit(Scene):
    configuration = '[[tenant]]\nname = "lab"\nlimit = "6GiB"\n'

    def test_what_the_tenants_limit_leaves_of_a_limit_is_the_size(self):
        program = self.run_it("train", "--tenant", "lab", "--limit", "15GiB")
        program.ask("start()")
        self.assertEqual(self.memory(program), (6 * GIB, 6 * GIB - 64 * MIB))
        self.takes_all(program)


if __name__ == "__main__":
    unittest.main()
