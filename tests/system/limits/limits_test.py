#!/usr/bin/env python3
"""Whole programs under `ration run` on a simulated GPU: every way of taking memory holds, and the command line's manners."""
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["BUILD_BIN"])
MIB = 1 << 20


class Governed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.environment = dict(os.environ, RATION_SIM_DIR=self.folder.name, RATION_RUNTIME_DIR=self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def ration(self, *arguments, **options):
        return subprocess.run([BIN / "ration", *arguments], env=self.environment, capture_output=True, text=True,
                              timeout=120, **options)

    def test_every_way_of_taking_memory_holds_the_limit_exactly(self):
        limit, context, request = 1024 * MIB, 64 * MIB, 256 * MIB
        done = self.ration("run", "--sim=T4:16GiB:context=64MiB", "--limit", "1GiB", "--", BIN / "ration-workload", "probe", "256")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split() for line in done.stdout.splitlines()]
        self.assertGreaterEqual(len(lines), 16)
        for name, obtained, left, result, after in lines:
            with self.subTest(way=name):
                self.assertEqual(after, "returned")
                self.assertEqual(int(result), 2, "refused with CUDA_ERROR_OUT_OF_MEMORY")
                if name in ("mipmap", "small-blocks"):  # other sizes than the request
                    self.assertLess(int(left), request)
                else:
                    self.assertEqual(int(obtained), (limit - context) // request * request)

    def test_without_a_limit_the_same_ways_reach_past_it(self):
        environment = dict(self.environment, RATION_SIM="T4:2GiB", LD_LIBRARY_PATH=str(BIN.parent / "sim"))
        done = subprocess.run([BIN / "ration-workload", "probe", "256"], env=environment, capture_output=True, text=True, timeout=120)
        for line in done.stdout.splitlines():
            name, obtained, *_ = line.split()
            if name not in ("mipmap", "small-blocks"):
                self.assertGreater(int(obtained), 1024 * MIB, name)

    def test_exit_codes_are_the_programs_own(self):
        for program, code in ((["/bin/sh", "-c", "exit 7"], 7), (["/bin/sh", "-c", "kill -9 $$"], 128 + signal.SIGKILL),
                              (["/no/such/program"], 127), (["/etc/passwd"], 126)):
            self.assertEqual(self.ration("run", "--sim=T4", "--limit", "1GiB", "--", *program).returncode, code, program)

    def test_nothing_is_added_to_the_programs_output(self):
        done = self.ration("run", "--sim=T4", "--limit", "1GiB", "--", "/bin/echo", "hello")
        self.assertEqual((done.stdout, done.stderr), ("hello\n", ""))


if __name__ == "__main__":
    unittest.main()
