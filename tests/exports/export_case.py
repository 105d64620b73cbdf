"""What the tests of exports share. Each is run by the Python that has the format's own reader."""
import csv
import json
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
NAMES = ("used_gib", "limit_gib", "peak_gib", "denials")  # what `--tensorboard` writes of each GPU


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


HISTORIES = sorted((SOURCE / "share/ration/traces").glob("*.csv"))


class Facts:
    """What a recording holds, read from an allocation history without the code that is tested."""

    def __init__(self, history):
        self.peak = self.live = self.allocations = self.frees = 0
        self.curve, blocks, at_peak = [], {}, {}
        with open(history) as lines:
            for row in csv.DictReader(lines):
                size, block = int(row["size"]), row["id"]
                if row["op"] == "a" and size > 0:
                    self.allocations += 1
                    blocks[block] = size
                    self.live += size
                elif row["op"] == "f" and block in blocks:
                    self.frees += 1
                    self.live -= blocks.pop(block)
                else:
                    continue
                self.curve.append((int(row["t_us"]), self.live))
                if self.live > self.peak:
                    self.peak, self.peak_us, self.blocks_at_peak = self.live, int(row["t_us"]), len(blocks)
        self.blocks = sorted(blocks.values())


class HistoryCase(ExportCase):
    """For each history: what it has, and what a format's reader finds in the export."""

    def exported(self, history, format, ending=""):
        file = self.folder / f"{history.stem}{ending or '.' + format}"
        done = self.ration("export", history, "--format", format, "-o", file)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return Facts(history), file

    def for_each_history(self, format, check, ending=""):
        """Calls `check` with what each history has, and with its export."""
        for history in HISTORIES:
            with self.subTest(history.stem):
                check(*self.exported(history, format, ending))


class RecordingCase(ExportCase):
    """A program that is recorded on two GPUs: contexts, pools, blocks that are never freed, memory of the host, a denial."""

    def setUp(self):
        super().setUp()
        self.recording = self.folder / "train.rec"
        node = "--sim=T4:16GiB:context=64MiB*2"
        done = self.ration("run", node, "--gpu", "0,1", "--limit", "4GiB", "--name", "train", "--record", self.recording, "--",
                           "sh", "-c", f"{WORKLOAD} steps --via vmm 1GiB:1ms 2GiB:1ms; {WORKLOAD} steps --via cache 1GiB:5ms 512MiB:5ms; CUDA_VISIBLE_DEVICES=1 {WORKLOAD} steps --via async 1GiB:1ms 2GiB:1ms; {WORKLOAD} steps 3GiB:1ms 9GiB:1ms")
        self.assertTrue(self.recording.exists(), done.stderr)
        done = self.ration("inspect", self.recording, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.facts = json.loads(done.stdout)["data"]
        self.held = {f"GPU {each['gpu']} {each['device_name']}" if each.get("gpu") is not None else "pinned host memory": each for each in self.facts["held"]}
        self.assertEqual(len([name for name in self.held if name.startswith("GPU")]), 2, self.held.keys())

    def exported(self, format, ending=""):
        file = self.folder / f"train{ending or '.' + format}"
        done = self.ration("export", self.recording, "--format", format, "-o", file)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return file

    def peaks(self):
        return {name: each["bytes"] for name, each in self.held.items()}

    def at_end(self):
        return {name: each["bytes_at_end"] for name, each in self.held.items()}
