#!/usr/bin/env python3
"""The image that `./dev package` makes, as Podman and Docker load it: its daemon holds a limit, and what it puts on a node works there."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from containers.engines import Docker, Podman, in_own_mounts, own_mounts  # noqa: E402
from node_client import GIB, SOURCE, environment_in, until  # noqa: E402

VERSION = (SOURCE / "VERSION").read_text().strip()
ARCHIVE = SOURCE / f"build/dist/ration-{VERSION}-oci.tar"
SIM = "--sim=T4:4GiB:context=64MiB"
WORKLOAD = "/usr/bin/ration-workload"


class Image:
    """What holds under both engines."""
    engine_class = tag = None

    @classmethod
    def setUpClass(cls):
        if cls.engine_class.missing():
            raise unittest.SkipTest(", ".join(cls.engine_class.missing()) + " is not here")
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.engine = cls.engine_class(cls.folder)
        cls.addClassCleanup(cls.engine.end)
        cls.name = f"localhost/ration:{VERSION}{cls.tag}"
        cls.loaded = cls.engine.call("load", "--input", ARCHIVE)

    def setUp(self):
        self.assertEqual(self.loaded.returncode, 0, self.loaded.stderr)
        self.node = self.folder / self.id().rpartition(".")[2]
        self.mounts = []
        for name in ("books", "sim", "package"):
            (self.node / name).mkdir(parents=True)
        for name, inside in (("books", "/run/ration"), ("sim", "/sim"), ("package", "/opt/ration")):
            self.mounts += ["-v", f"{self.node}/{name}:{inside}"]

    def run_in(self, *words):
        done = self.engine.call("run", "--rm", *self.mounts, self.name, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_it_has_a_name_and_says_its_version(self):
        self.assertIn(self.name, self.loaded.stdout)
        self.assertIn(VERSION, self.run_in("--version"))

    def test_its_daemon_holds_a_limit(self):
        done = self.engine.call("run", "--detach", "--name", "node", *self.mounts, "-e", "RATION_SIM_DIR=/sim", self.name, "serve", SIM, "--listen", "")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.engine.remove, "node")

        def ration(*words):
            return self.engine.execute("node", "/usr/bin/ration", *words)
        until(lambda: ration("ps").returncode == 0, "the daemon answers")
        denied = ration("run", SIM, "--name", "greedy", "--limit", "1GiB", "--", WORKLOAD, "hold", "2GiB")
        self.assertIn("denied 2.00 GiB", denied.stderr)
        self.assertEqual(ration("run", SIM, "--limit", "1GiB", "--", WORKLOAD, "total").stdout.strip(), str(GIB))
        self.assertIn("greedy was denied 2.00 GiB", ration("events").stdout)

    def test_what_it_puts_on_a_node_works_there(self):
        self.run_in("copy-package", "/opt/ration")
        program = self.node / "package/bin"
        (self.node / "ration.toml").touch()
        done = subprocess.run([program / "ration", "run", SIM, "--limit", "1GiB", "--", program / "ration-workload", "total"], env=environment_in(self.node), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(GIB)), done.stderr)


class UnderPodman(Image, unittest.TestCase):
    engine_class, tag = Podman, ""


class UnderDocker(Image, unittest.TestCase):
    """Which keeps images itself, and reads no index."""
    engine_class, tag = Docker, "-amd64"


if __name__ == "__main__":
    missing = [] if ARCHIVE.exists() else ["the image (./dev package makes it)"]
    if missing or not own_mounts():
        print("skipped: this test needs root and " + ", ".join(missing or ["a mount namespace"]))
        sys.exit(77)
    if "RATION_TEST_OWN_MOUNTS" not in os.environ:
        os.environ["RATION_TEST_OWN_MOUNTS"] = "1"
        in_own_mounts([sys.executable, *sys.argv])
    unittest.main(verbosity=2)
