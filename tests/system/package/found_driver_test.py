#!/usr/bin/env python3
"""An installed package on a machine with a driver: no command makes a workload of itself, and everything that comes with the
package is where people look for it. installed.py says where it is installed."""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
import urllib.request

BIN = pathlib.Path(os.environ["BUILD_BIN"])
PYTHON = shlex.split(os.environ["INSTALLED_PYTHON"])
IS_WHEEL = os.environ["INSTALLED"] == "wheel"
GIB = 1 << 30


class FoundDriver(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_", "CUDA_", "PYTHONPATH"))}
        self.environment = dict(own, RATION_SIM_DIR=folder.name, RATION_RUNTIME_DIR=folder.name, HOME=folder.name, LC_ALL="C.UTF-8",
                                PATH=f"{BIN}:{os.environ['PATH']}")

    def run_words(self, *words, code=0, **variables):
        done = subprocess.run([str(word) for word in words], env={**self.environment, **variables}, capture_output=True, text=True, timeout=120,
                              cwd=self.folder)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def books(self):
        return sorted(path.name for path in self.folder.rglob("*.book"))

    def python(self, program, **variables):
        return self.run_words(*PYTHON, "-c", textwrap.dedent(program), **variables)

    def test_a_driver_is_found(self):
        self.python("import ctypes; assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0")
        self.assertNotIn("sim", json.loads(self.run_words("ration", "ps", "-o", "json").stdout)["devices"][0]["uuid"].lower().split("-")[0])

    def test_a_limit_holds(self):
        for variables in ({}, {"RATION_SIM": "T4"}):
            denied = self.run_words("ration", "run", "--limit", "1GiB", "--", "ration-workload", "hold", "2GiB", code=None, **variables)
            self.assertIn("denied 2.00 GiB", denied.stderr)
            self.assertEqual(self.run_words("ration", "run", "--limit", "1GiB", "--", "ration-workload", "total", **variables).stdout, f"{GIB}\n")

    def test_no_command_makes_a_workload_of_itself(self):
        for variables in ({}, {"RATION_SIM": "T4"}):
            for words in ("ration version", "ration help run", "ration ps", "ration config print", "ration fits 1GiB", "ration sim env --sim=T4",
                          "rationd --help", "ration-workload --help", "ration-sim-truth --json"):
                with self.subTest(words, **variables):
                    done = self.run_words(*words.split(), code=None, **variables)
                    self.assertNotIn("E1414", done.stderr)
                    self.assertEqual(self.books(), [])
            rows = json.loads(self.run_words("ration", "ps", "-o", "json", **variables).stdout)["data"]
            self.assertEqual([row["workload"] for row in rows if row["governed"]], [])
        self.assertNotIn("E1414", self.run_words("ration", "doctor", code=None).stdout)  # it runs workloads of its own

    def test_python_m_ration_is_the_command_and_no_workload(self):
        for words in (["-m", "ration"], ["-mration"], ["-B", "-m", "ration"]):
            done = self.run_words(*PYTHON, *words, "run", "--limit", "1GiB", "--", "ration-workload", "total")
            self.assertEqual(done.stdout, f"{GIB}\n", done.stderr)
            self.assertEqual([name for name in self.books() if not name.startswith("ration-workload-")], [])
            self.assertIn("ration ", self.run_words(*PYTHON, *words, "version").stdout)
        self.python("""
            import subprocess, sys
            open('uses.py', 'w').write('import ration, sys; print(ration.is_governed(), sys.argv[1:])')
            subprocess.run([sys.executable, '-m', 'uses', '-m', 'ration'], check=True)
        """)
        self.assertEqual(self.run_words(*PYTHON, "-m", "uses", "ration").stdout, "True ['ration']\n", "a program of that argument is none")

    def test_a_site_that_imports_ration_leaves_the_commands_alone(self):
        if not IS_WHEEL:
            self.skipTest("only a wheel's commands are started by Python")
        (self.folder / "site").mkdir()
        (self.folder / "site/sitecustomize.py").write_text("import ration\n")
        done = self.run_words("ration", "run", "--limit", "1GiB", "--", "ration-workload", "total", PYTHONPATH=str(self.folder / "site"))
        self.assertEqual(done.stdout, f"{GIB}\n", done.stderr)

    def test_looking_for_plugins_makes_no_workload(self):
        done = self.python("""
            import importlib.metadata as metadata, sys
            points = [point for point in metadata.distribution('ration').entry_points]
            assert {point.group for point in points} >= {'pytest11', 'jupyter_client.kernel_provisioners'}, points
            for point in points:
                try:
                    point.load()
                except ImportError as error:  # pytest or Jupyter are not here
                    assert 'ration' not in str(error), error
            import importlib.util, ration_jupyter, ration_command
            for name in ('ration_jupyter.program', 'ration_jupyter.status', 'ration_jupyter.daemon', 'ration_jupyter.singleuser'):
                __import__(name)
            assert importlib.util.find_spec('ration') is not None
            assert 'ration' not in sys.modules
            print(ration_command.find())
        """)
        self.assertTrue(os.access(done.stdout.strip(), os.X_OK), done.stdout)
        self.assertEqual(self.books(), [])

    def test_the_python_package_holds_a_limit(self):
        self.python("""
            import ration
            ration.limit('1GiB')
            import ctypes
            cuda = ctypes.CDLL('libcuda.so.1')
            context, total, free = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
            assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
            assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0 and total.value == 1 << 30, total.value
        """)

    def test_manual_and_completions_lie_where_shells_look(self):
        share = BIN.parent / "share"
        self.assertTrue(any((share / "man/man1" / name).exists() for name in ("ration-run.1", "ration-run.1.gz")))
        for name in ("bash-completion/completions/ration", "zsh/site-functions/_ration", "fish/vendor_completions.d/ration.fish"):
            self.assertGreater((share / name).stat().st_size, 100, name)
        if shutil.which("man"):
            self.assertIn("ration-run", self.run_words("man", "-w", "ration-run").stdout)

    def test_the_dashboards_documentation_is_there(self):
        daemon = subprocess.Popen([BIN / "rationd", "--sim=T4", "--listen", "127.0.0.1:0", "--state", self.folder / "state"], env=self.environment,
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (daemon.terminate(), daemon.communicate()))
        address = next(word for word in daemon.stdout.readline().split() if "127.0.0.1" in word).rstrip(".,")
        with urllib.request.urlopen(f"{address.split('#')[0].rstrip('/')}/docs/index.html", timeout=60) as page:
            self.assertIn("text/html", page.headers["Content-Type"])
            self.assertIn(b"<html", page.read()[:1000])


if __name__ == "__main__":
    unittest.main()
