"""What the tests of Jupyter share: folders of their own, ration installed for the environment's Python, and its command."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", SOURCE / "build/release"))
RATION = str(BUILD / "bin/ration")
NODE = "--sim=T4:16GiB:context=64MiB"
MIB, GIB = 1 << 20, 1 << 30
PATIENCE = 120  # seconds until a condition that is polled counts as never

# Cells: the driver as any program finds it. `take` answers a request in MiB with the driver's code: 0, or 2 for no memory.
CELL = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
def total():
    free, all_ = ctypes.c_size_t(), ctypes.c_size_t()
    assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(all_)) == 0
    return all_.value
def take(mib):
    return driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(mib << 20))
context = ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
"""


def until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.01)  # the processors are for those it waits for
    raise AssertionError("never: " + what)


class JupyterCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ration-jupyter-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        own = {key: value for key, value in os.environ.items()
               if not key.startswith(("RATION_", "LD_", "PYTHON", "JUPYTER", "JPY_", "CUDA_"))}
        self.environment = dict(
            own, HOME=folder.name, RATION_RUNTIME_DIR=str(self.folder / "run"), RATION_SIM_DIR=str(self.folder / "run"),
            RATION_CONFIG=str(self.folder / "ration.toml"), RATION_PROGRAM=RATION, RATION_LIBRARY=str(BUILD / "lib/libration.so.1"),
            PYTHONPATH=f"{self.installed()}:{SOURCE / 'python'}", PYTHONDONTWRITEBYTECODE="1", LC_ALL="C.UTF-8",
            PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            **{f"JUPYTER_{kind}_DIR": str(self.folder / kind.lower()) for kind in ("DATA", "RUNTIME", "CONFIG")},
            IPYTHONDIR=str(self.folder / "ipython"))
        (self.folder / "run").mkdir()
        (self.folder / "ration.toml").write_text("")

    def installed(self):
        """A folder that says of ration's package what installing it would say."""
        import tomllib
        points = tomllib.loads((SOURCE / "python/pyproject.toml").read_text())["project"]["entry-points"]
        told = self.folder / "site/ration-0.dist-info"
        told.mkdir(parents=True)
        (told / "METADATA").write_text("Metadata-Version: 2.1\nName: ration\nVersion: 0\n")
        (told / "entry_points.txt").write_text("".join(
            f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in named.items()) for group, named in points.items()))
        return told.parent

    def ration(self, *arguments):
        return subprocess.run([RATION, *arguments], env=self.environment, capture_output=True, text=True, timeout=PATIENCE)

    def module(self, *arguments, **environment):
        return subprocess.run([sys.executable, "-m", "ration_jupyter", *arguments], env={**self.environment, **environment},
                              capture_output=True, text=True, timeout=PATIENCE)

    def rows(self):
        done = self.ration("ps", NODE, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {row["workload"]: row for row in json.loads(done.stdout)["data"] if row["governed"]}


def main():
    """`python3 NAME_test.py PYTHON` runs the tests by the Python that has Jupyter."""
    if len(sys.argv) > 1 and os.access(sys.argv[1], os.X_OK):
        os.execv(sys.argv[1], [sys.argv[1], "-W", "ignore", os.path.abspath(sys.argv[0]), *sys.argv[2:]])
    unittest.main()
