"""What the tests of one kind of memory share: a program under a limit, and what the simulator and `ration ps` say of it."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import waiting  # noqa: E402, F401
from program import Program  # noqa: E402

BIN = pathlib.Path(os.environ["BUILD_BIN"])
MIB = 1 << 20
CONTEXT = 64


class Scene(unittest.TestCase):
    NAME = "program"  # of the workload

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.environment = dict(os.environ, RATION_SIM_DIR=self.folder.name, RATION_RUNTIME_DIR=self.folder.name)

    def program(self, *options, cards=1, limit="1GiB", name=None):
        self.node = f"T4:16GiB:context={CONTEXT}MiB" + (f"*{cards}" if cards > 1 else "")
        made = Program(self.environment, [BIN / "ration", "run", f"--sim={self.node}", "--limit", limit, "--name", name or self.NAME, *options, "--",
                                          "/usr/bin/env", "-u", "CUDA_VISIBLE_DEVICES"])
        self.addCleanup(made.end)
        return made

    def ration(self, *arguments):
        return subprocess.run([BIN / "ration", *arguments, f"--sim={self.node}"], env=self.environment, capture_output=True, text=True).stdout

    def truth(self, what):
        """MiB of each device, by the simulator."""
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=self.node), capture_output=True, text=True, check=True)
        devices = json.loads(told.stdout)["devices"]
        return [(d["peak_bytes"] if what == "peak" else d["total_bytes"] - d["free_bytes"]) // MIB for d in devices]

    def pinned(self, what="bytes"):
        """Bytes of pinned host memory, by the simulator: now, or at most (peak_bytes)."""
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=self.node), capture_output=True, text=True, check=True)
        return json.loads(told.stdout)["host"][what]

    def rows(self, field):
        rows = json.loads(self.ration("ps", "-o", "json"))["data"]
        return [row[field] // MIB if field.endswith("_bytes") else row[field] for row in sorted(rows, key=lambda row: row["gpu"])]
