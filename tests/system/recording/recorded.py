"""What the tests of recordings share: a folder of its own for each, a program that is recorded, and the recording."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "limits")]
import waiting  # noqa: E402, F401
from program import Program  # noqa: E402
from recording_file import Recording  # noqa: E402

BIN = pathlib.Path(os.environ["BUILD_BIN"])
MIB = 1 << 20


class Recorded(unittest.TestCase):
    NODE = "T4:16GiB:context=64MiB"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = dict(os.environ, RATION_SIM_DIR=folder.name, RATION_RUNTIME_DIR=folder.name)
        self.file = self.folder / "train.rec"

    def run_line(self, *options, limit="1GiB"):
        return [BIN / "ration", "run", f"--sim={self.NODE}", "--limit", limit, "--record", self.file, *options, "--"]

    def program(self, *options, limit="1GiB"):
        made = Program(self.environment, [*self.run_line(*options, limit=limit), "/usr/bin/env", "-u", "CUDA_VISIBLE_DEVICES"])
        self.addCleanup(made.end)
        return made

    def inspected(self, path=None):
        told = subprocess.run([BIN / "ration", "inspect", path or self.file, "-o", "json"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(told.returncode, 0, told.stderr)
        return json.loads(told.stdout)["data"]

    def recording(self):
        return Recording(self.file)

    def tool(self, name):
        return BIN / name

    def ration(self, *arguments):
        told = subprocess.run([BIN / "ration", *arguments, f"--sim={self.NODE}"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(told.returncode, 0, told.stderr)
        return told.stdout
