"""What the tests of exports share. Each is run by the Python that has the format's own reader."""
import os
import pathlib
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", SOURCE / "build/release"))
os.environ.setdefault("RATION_TEST_PATIENCE", "60")  # a browser, TensorBoard and a Go program take their time to start
os.environ.update(BUILD_BIN=str(BUILD / "bin"), SOURCE=str(SOURCE))
sys.path[:0] = [str(SOURCE / "tests/system"), str(SOURCE / "tests/engines")]
from node_client import BIN, GIB, MIB, PATIENCE, environment_in, own_folder, until  # noqa: E402, F401  (for the tests)

CONTEXT = 64 * MIB
NODE = f"--sim=T4:16GiB:context={CONTEXT // MIB}MiB"
WORKLOAD = str(BIN / "ration-workload")


class ExportCase(unittest.TestCase):
    def setUp(self):
        self.folder = own_folder(self)
        self.environment = environment_in(self.folder)
        (self.folder / "ration.toml").write_text("")

    def ration(self, *words, **more):
        return subprocess.run([BIN / "ration", *map(str, words)], env=self.environment, capture_output=True, text=True, timeout=PATIENCE, **more)

    def started(self, *words, **more):
        """`ration run` with these words, in the background."""
        process = subprocess.Popen([BIN / "ration", "run", *map(str, words)], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.PIPE, text=True, **more)
        self.addCleanup(lambda: (process.terminate(), process.wait(), process.stdout.close(), process.stderr.close(), process.stdin.close()))
        return process
