#!/usr/bin/env python3
"""pytest's options for GPU memory (`ration.testing`), in runs of pytest of their own."""
import collections
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import waiting  # noqa: E402, F401

BUILD, SOURCE = pathlib.Path(os.environ["BUILD"]), pathlib.Path(os.environ["SOURCE"])
MiB = 1 << 20

TESTS = """
import ctypes, pytest
class Driver:
    def __init__(self):
        self.cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        assert self.cuda.cuInit(0) == 0 and self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert self.cuda.cuCtxSetCurrent(context) == 0
    def takes(self, mib):
        block = ctypes.c_uint64()
        if self.cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(mib << 20)) != 0: return False
        assert self.cuda.cuMemFree_v2(block) == 0
        return True
@pytest.fixture(scope="session")
def driver(): return Driver()
def test_nothing(): pass
def test_small(driver): assert driver.takes(100)
def test_large(driver, gpu_memory):
    assert driver.takes(300)
    assert gpu_memory() == 300 << 20
def test_limited(driver, gpu_limit):
    gpu_limit('1GiB')
    assert not driver.takes(1000)
def test_no_longer_limited(driver): assert driver.takes(1000)
"""


@unittest.skipIf(importlib.util.find_spec("pytest") is None, "pytest is not installed")
class Testing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name, "project")
        self.state = pathlib.Path(folder.name, "temporary")
        self.folder.mkdir()
        self.state.mkdir()
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_", "PYTHON", "CUDA_", "PYTEST_"))}
        self.environment = dict(own, PYTHONPATH=str(SOURCE / "libration/python"), RATION_LIBRARY=str(BUILD / "lib/libration.so.1"),
                                TMPDIR=str(self.state), PYTHONDONTWRITEBYTECODE="1")
        self.write(TESTS)

    def write(self, text):
        (self.folder / "test_it.py").write_text(text)

    def pytest(self, *options, code=0, simulated=True):
        node = ["--gpu-sim", "T4:16GiB"] if simulated else []
        done = subprocess.run([sys.executable, "-m", "pytest", "-p", "ration_pytest", "-p", "no:cacheprovider", *node, *options],
                              cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_peaks_are_told_at_the_end_and_in_junits_xml(self):
        told = self.pytest("--junit-xml", "it.xml")
        self.assertRegex(told, r"(?s)GPU memory at the peak.*1000 MiB  test_it.py::test_no_longer_limited\n *300 MiB  test_it.py::test_large\n")
        peaks = {case.get("name"): int(case.find("properties/property[@name='gpu_memory_peak_bytes']").get("value"))
                 for case in xml.etree.ElementTree.parse(self.folder / "it.xml").iter("testcase")}
        self.assertEqual(peaks, {"test_nothing": 0, "test_small": 100 * MiB, "test_large": 300 * MiB, "test_limited": 0,
                                 "test_no_longer_limited": 1000 * MiB})
        self.assertEqual(list(self.state.iterdir()), [])

    def test_more_than_the_baseline_fails(self):
        baseline = self.folder / "memory.json"
        self.pytest("--gpu-memory-baseline", "memory.json", "--gpu-memory-update")
        peaks = json.loads(baseline.read_text())
        self.assertEqual(peaks["test_it.py::test_large"], 300 * MiB)
        self.pytest("--gpu-memory-baseline", "memory.json")
        self.write(TESTS.replace("takes(300)", "takes(328)").replace("== 300 <<", "== 328 <<"))
        self.pytest("--gpu-memory-baseline", "memory.json")     # 10 % more are no failure
        told = self.pytest("--gpu-memory-baseline", "memory.json", "--gpu-memory-tolerance", "5%", code=1)
        self.assertIn("test_it.py::test_large took 328 MiB of GPU memory at its peak; memory.json allows 300 MiB plus 5%. "
                      "If this is intended: --gpu-memory-update", told)
        self.assertIn("1 failed, 4 passed", told)
        self.pytest("--gpu-memory-baseline", "memory.json", "--gpu-memory-update")
        self.assertEqual(json.loads(baseline.read_text())["test_it.py::test_large"], 328 * MiB)

    def test_the_marker(self):
        self.write(TESTS + """
@pytest.mark.gpu_limit_memory("1500MiB")
def test_below(driver): assert driver.takes(1400)
@pytest.mark.gpu_limit_memory("1500MiB")
def test_above(driver): assert driver.takes(1600)
@pytest.mark.gpu_limit_memory("much")
def test_of_no_size(driver): assert driver.takes(1)
@pytest.mark.gpu_limit_memory("1500 MiB")
def test_with_a_space(driver): assert driver.takes(1)
""")
        told = self.pytest("--strict-markers", code=1)
        self.assertIn("the block 'test_above' took 1.56 GiB of GPU memory", told)
        self.assertIn("To allow it: gpu_limit_memory('1600MiB')", told)
        self.assertIn("gpu_limit_memory('much'): 'much' is not a size", told)
        self.assertIn("gpu_limit_memory('1500 MiB'): '1500 MiB' is not a size: write '1500MiB', without a space", told)
        self.assertIn("3 failed, 6 passed", told)
        self.assertNotIn("ration_pytest.py", told, "a failure shows frames of the plug-in")

    def test_who_asks_for_nothing_is_left_alone(self):
        self.write("import sys\ndef test_it(): assert 'ration' not in sys.modules\n")
        self.assertNotIn("GPU memory", self.pytest(simulated=False))

    def test_the_workflow_that_is_there_to_copy(self):
        workflow = (SOURCE / "examples/ci/gpu-memory.yml").read_text()
        made, = re.findall(r"made once by: pytest (.*)", workflow)
        run, = re.findall(r"- run: pytest (.*)", workflow)
        self.pytest(*made.split(), simulated=False)
        self.pytest(*run.split(), simulated=False)
        self.assertTrue((self.folder / "gpu-memory.xml").exists())

    def test_bad_input(self):
        for options, why in ((["--gpu-sim", "Z9"], "there is no model 'Z9'"),
                             (["--gpu-memory-baseline", "missing.json"], "Write it with --gpu-memory-update"),
                             (["--gpu-memory-update"], "needs --gpu-memory-baseline FILE"),
                             (["--gpu-memory", "--gpu-memory-tolerance", "10"], "is a share such as 10%")):
            self.assertIn(why, self.pytest(*options, simulated=False, code=4))
        (self.folder / "bad.json").write_text("[1]")
        self.assertIn("bad.json", self.pytest("--gpu-memory-baseline", "bad.json", code=4))
        self.assertEqual(list(self.state.iterdir()), [])


class SeveralTestsAGpu(unittest.TestCase):
    """`python -m ration.testing`, which takes a place on a GPU for one test."""

    HOLD = """
import ctypes, os, sys
cuda, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
takes = [mib for mib in (1000, 7000, 9000) if cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(mib << 20)) == 0 and cuda.cuMemFree_v2(block) == 0]
print(os.environ["CUDA_VISIBLE_DEVICES"], takes, flush=True)
sys.stdin.readline()
sys.exit(7)
"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_", "PYTHON", "CUDA_", "TF_"))}
        environment = dict(own, RATION_SIM_DIR=folder.name, RATION_RUNTIME_DIR=folder.name)
        asked = subprocess.run([str(BUILD / "bin/ration"), "sim", "env", "--sim=T4:16GiB*2", "-o", "json"], env=environment,
                               capture_output=True, text=True, check=True)
        self.environment = {**environment, **json.loads(asked.stdout)["data"]["sets"], "PYTHONPATH": str(SOURCE / "libration/python"),
                            "RATION_LIBRARY": str(BUILD / "lib/libration.so.1"), "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self, *options, **variables):
        running = subprocess.Popen([sys.executable, "-m", "ration.testing", *options, "--", sys.executable, "-c", self.HOLD],
                                   env={**self.environment, **variables}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: running.poll() is None and (running.kill(), running.communicate()))
        return running

    def test_tests_are_spread_limited_and_wait_for_a_place(self):
        four = [self.start("--tests-per-gpu", "2") for _ in range(4)]
        told = [running.stdout.readline() for running in four]
        gpus = collections.Counter(line.split(" ", 1)[0] for line in told)
        self.assertEqual(sorted(gpus.values()), [2, 2], told)
        self.assertEqual({line.split(" ", 1)[1] for line in told}, {"[1000, 7000]\n"}, "half of 16 GiB each")
        fifth = self.start("--tests-per-gpu", "2")
        four[2].communicate("")
        self.assertEqual(four[2].returncode, 7, "the exit code is the test's")
        self.assertEqual(fifth.stdout.readline(), told[2], "in the place that was left")
        self.assertEqual([running.poll() for running in four].count(None), 3)

    def test_with_the_variables_of_tensorflows_runner(self):
        running = self.start(TF_PER_DEVICE_MEMORY_LIMIT_MB="2048", TF_TESTS_PER_GPU="8", TF_GPU_COUNT="1")
        first, takes = running.stdout.readline().split(" ", 1)
        self.assertEqual(takes, "[1000]\n")
        second = self.start(TF_PER_DEVICE_MEMORY_LIMIT_MB="2048", CUDA_VISIBLE_DEVICES="1").stdout.readline().split(" ", 1)[0]
        self.assertTrue(second.startswith("GPU-") and second != first, (first, second))

    def test_bad_input_starts_nothing(self):
        for options, variables, why in (
                ((), {"TF_PER_DEVICE_MEMORY_LIMIT_MB": "2GB"}, "TF_PER_DEVICE_MEMORY_LIMIT_MB=2GB is not a whole number above 0"),
                ((), {"TF_TESTS_PER_GPU": "0"}, "TF_TESTS_PER_GPU=0 is not a whole number above 0"),
                ((), {"TF_GPU_COUNT": "3"}, "TF_GPU_COUNT=3, but there are 2 GPUs"),
                (("--limit", "1GiB"), {"TF_PER_DEVICE_MEMORY_LIMIT_MB": "2048"}, "both limit the test: leave one out"),
                (("--tests-per-gpu", "0"), {}, "a GPU has 1 to 100 tests at once, not 0"),
                (("--limit", "much"), {}, "much")):
            with self.subTest(options=options, variables=variables):
                told, wrong = self.start(*options, **variables).communicate()
                self.assertEqual(told, "")
                self.assertIn(why, wrong)


if __name__ == "__main__":
    unittest.main(verbosity=2)
