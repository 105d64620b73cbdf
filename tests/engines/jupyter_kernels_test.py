"""`python -m ration_jupyter install`: a kernel under a limit, from the kernelspec to nothing being left."""
import json
import os
import pathlib
import sys
import unittest

from engine_case import GIB, PATIENCE, RATION
from jupyter_case import CELL, NODE, JupyterCase


class Kernel:
    """A kernel as a front end has it."""

    def __init__(self, case, name, notebook="work/Study of cats.ipynb"):
        from jupyter_client.kernelspec import KernelSpecManager
        from jupyter_client.manager import KernelManager
        specs = KernelSpecManager(kernel_dirs=[str(case.folder / "data/kernels")])
        self.manager = KernelManager(kernel_name=name, kernel_spec_manager=specs,
                                     connection_file=str(case.folder / f"kernel-{name}-{id(self)}.json"))
        case.addCleanup(lambda: self.manager.has_kernel and self.manager.shutdown_kernel(now=True))
        self.manager.start_kernel(env=dict(case.environment, JPY_SESSION_NAME=notebook), cwd=str(case.folder))
        self.connect()
        case.addCleanup(lambda: self.client.stop_channels())

    def connect(self):
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)

    def cell(self, *lines):
        told = []
        self.client.execute_interactive("\n".join(lines), timeout=PATIENCE, allow_stdin=False, output_hook=lambda message: told.append(
            message["content"].get("text") or message["content"].get("evalue") or message["content"].get("ename") or ""))
        return "".join(told).strip()


class Kernels(JupyterCase):
    def setUp(self):
        super().setUp()
        # The provisioner is found by this process, as by a Jupyter server.
        for key in list(os.environ):
            if key.startswith("RATION_"):
                del os.environ[key]
        self.addCleanup(os.environ.update, dict(os.environ))
        os.environ.update({key: value for key, value in self.environment.items() if key.startswith(("RATION_", "JUPYTER_", "PATH"))})
        path = list(sys.path)
        self.addCleanup(lambda: sys.path.__setitem__(slice(None), path))
        sys.path[:0] = self.environment["PYTHONPATH"].split(":")
        from jupyter_client.provisioning import KernelProvisionerFactory
        KernelProvisionerFactory.clear_instance()

    def install(self, *options):
        done = self.module("install", "--limit", "4GiB", "--user", *options, "--", NODE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return pathlib.Path(done.stdout.strip())

    def test_the_kernelspec(self):
        folder = self.install()
        spec = json.loads((folder / "kernel.json").read_text())
        self.assertEqual(spec["display_name"], "Python 3 · 4 GiB GPU")
        self.assertEqual(spec["argv"], [RATION, "run", "--limit", "4GiB", NODE, "--", sys.executable, "-m", "ipykernel_launcher",
                                        "-f", "{connection_file}"])
        self.assertEqual(folder.name, "ration-4gib")
        self.assertIn("Python 3 · 4 GiB GPU", self.module("list").stdout)
        self.assertEqual(json.loads(self.module("list", "--json").stdout)["ration-4gib"]["limit"], "4GiB")
        foreign = self.folder / "data/kernels/mine"
        foreign.mkdir()
        (foreign / "kernel.json").write_text('{"argv": ["x"], "display_name": "x", "language": "x"}')
        self.assertNotIn("mine", self.module("list").stdout)
        self.assertEqual(self.module("uninstall", "mine").returncode, 1)
        self.assertTrue(foreign.exists())
        self.assertEqual(self.module("uninstall", "ration-4gib").returncode, 0)
        self.assertFalse(folder.exists())
        self.assertEqual(self.module("list").stdout, "")

    def test_what_cannot_be_limited_is_not_installed(self):
        for options, said in ((["--limit", "much"], "E1"), (["--limit", "4GiB", "--python", "/bin/false"], "ipykernel")):
            done = self.module("install", "--user", *options, "--", NODE)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(said, done.stderr)
        done = self.module("install", "--user", "--limit", "4GiB", "--", NODE, RATION_PROGRAM="/nowhere", PATH="/usr/bin")
        self.assertIn("the command ration was not found", done.stderr)
        self.assertFalse((self.folder / "data/kernels").exists())

    def test_the_limit_holds_signals_arrive_and_nothing_is_left(self):
        self.install()
        kernel = Kernel(self, "ration-4gib")
        self.assertEqual(kernel.cell(CELL, "print(total(), take(3500), take(3500))"), f"{4 * GIB} 0 2")
        row, = self.rows().values()
        self.assertRegex(row["workload"], r"^Study-of-cats\.ipynb-")
        self.assertIn("kernel=" + kernel.manager.kernel_id, row["labels"])

        said = kernel.client.execute("try:\n    print('begun', flush=True)\n    while True: str(1)\n"
                                     "except KeyboardInterrupt: print('interrupted')")
        self.output(kernel, said, "begun")
        kernel.manager.interrupt_kernel()
        self.output(kernel, said, "interrupted")
        self.assertEqual(kernel.cell("print('alive')"), "alive", "one interrupt is one")

        kernel.manager.restart_kernel(now=False)
        kernel.client.stop_channels()
        kernel.connect()
        self.assertEqual(kernel.cell(CELL, "print(total(), take(3500))"), f"{4 * GIB} 0", "what it held is given back")
        self.assertEqual(len(self.rows()), 1)
        kernel.manager.restart_kernel(now=True)
        kernel.client.stop_channels()
        kernel.connect()
        self.assertEqual(kernel.cell(CELL, "print(total(), take(3500))"), f"{4 * GIB} 0", "also when it was killed")
        kernel.manager.shutdown_kernel()
        self.assertEqual(self.rows(), {})

    def output(self, kernel, request, text):
        told = []
        while text not in "".join(told):
            message = kernel.client.get_iopub_msg(timeout=PATIENCE)
            if message["parent_header"].get("msg_id") == request:
                told.append(message["content"].get("text", ""))
                self.assertNotEqual(message["content"].get("execution_state"), "idle", f"it never said {text}, but {told}")

    def test_a_kernel_that_is_killed_leaves_nothing(self):
        self.install()
        kernel = Kernel(self, "ration-4gib")
        self.assertEqual(kernel.cell(CELL, "print(take(1000))"), "0")
        self.assertEqual(len(self.rows()), 1)
        kernel.manager.shutdown_kernel(now=True)
        self.assertEqual(self.rows(), {})

    def test_the_magic_shows_what_the_status_bar_shows(self):
        self.install()
        kernel = Kernel(self, "ration-4gib")
        self.assertEqual(kernel.cell(CELL, "print(take(1200), take(3500))"), "0 2")
        said = kernel.cell("%load_ext ration", "%ration")
        name, = self.rows()
        self.assertIn(f"GPU 0  1.2 / 4.0 GiB  {name}\n", said)
        self.assertIn(f"{name} was denied 3.42 GiB: it held 1.23 GiB of its limit 4.00 GiB\n  ration set {NODE} {name} --limit", said)

    def test_two_of_one_notebook(self):
        self.install()
        kernels = [Kernel(self, "ration-4gib") for _ in range(2)]
        self.assertEqual([kernel.cell(CELL, "print(take(3500))") for kernel in kernels], ["0", "0"])
        self.assertEqual(len(self.rows()), 2)

    def test_a_kernel_that_cannot_be_limited_does_not_start_and_says_why(self):
        folder = self.install()
        spec = json.loads((folder / "kernel.json").read_text())
        whole = json.dumps(spec)

        def starts(text):
            (folder / "kernel.json").write_text(text)
            with self.assertRaises(Exception) as failed:
                Kernel(self, "ration-4gib")
            self.assertEqual(self.rows(), {})
            return str(failed.exception)
        for word, other, said in (('"--", "', '"--", "env", "-i", "', "E1404"), ('"4GiB", "--sim', '"lots", "--sim', "E1"),
                                  ('"--limit"', '"--name"', "not 'ration run --limit"), (RATION, "/nowhere/ration", "/nowhere/ration")):
            with self.subTest(other):
                self.assertIn(said, starts(whole.replace(word, other)))

    def test_without_the_package_in_the_servers_python_it_is_held_all_the_same(self):
        (self.folder / "site/ration-0.dist-info/entry_points.txt").unlink()
        done = self.module("install", "--limit", "4GiB", "--user", "--", NODE)
        self.assertIn("workloads are not named after their notebooks", done.stderr)
        spec = json.loads((self.folder / "data/kernels/ration-4gib/kernel.json").read_text())
        self.assertNotIn("kernel_provisioner", spec["metadata"])
        kernel = Kernel(self, "ration-4gib")
        self.assertEqual(kernel.cell(CELL, "print(total(), take(5000))"), f"{4 * GIB} 2")


if __name__ == "__main__":
    unittest.main()
