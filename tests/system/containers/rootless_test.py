#!/usr/bin/env python3
"""Rootless Podman: what a user without root is given, and what it is told."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from containers.engines import CONFIGURATION, Podman, in_own_mounts, own_mounts, root_file_system  # noqa: E402
from node.node_case import Case  # noqa: E402
from node_client import BIN, GIB  # noqa: E402

USER = 4321
IMAGE = "localhost/ration-test:1"
NODE = "T4:16GiB:context=64MiB"


def add_user(folder):
    """A user with user ids of its own for containers; in this mount namespace alone."""
    lines = {"passwd": f"alice:x:{USER}:{USER}::{folder}:/bin/sh", "group": f"alice:x:{USER}:", "subuid": "alice:500000:65536", "subgid": "alice:500000:65536"}
    for name, line in lines.items():
        original, own = pathlib.Path("/etc", name), folder / name
        own.write_text((original.read_text() if original.exists() else "") + line + "\n")
        original.touch()
        subprocess.run(["mount", "--bind", own, original], check=True)


class Rootless(Case):
    node = "--sim=" + NODE
    configuration = '[containers]\ncdi = "/run/cdi"\n[[tenant]]\nname = "nlp"\nlimit = "4GiB"\n'

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.shared, True)
        cls.shared.chmod(0o755)
        cls.home = cls.shared / "alice"
        cls.home.mkdir()
        add_user(cls.home)
        runtime = pathlib.Path("/run/user", str(USER))
        runtime.mkdir(parents=True, exist_ok=True)
        root = root_file_system(cls.shared / "root")
        (cls.home / "containers.conf").write_text(CONFIGURATION)
        (cls.home / "storage.conf").write_text('[storage]\ndriver = "vfs"\n')
        for folder in (cls.home, runtime):
            os.chown(folder, USER, USER)
        cls.alice = {"HOME": str(cls.home), "XDG_RUNTIME_DIR": str(runtime), "PATH": os.environ["PATH"], "RATION_SIM": NODE,
                     "CONTAINERS_CONF": str(cls.home / "containers.conf"), "CONTAINERS_STORAGE_CONF": str(cls.home / "storage.conf")}
        cls.addClassCleanup(cls.as_alice, "podman", "system", "reset", "--force")
        made = cls.as_alice("sh", "-c", f"tar -C {root} -c . | podman import - {IMAGE}")
        assert made.returncode == 0, made.stderr

    @classmethod
    def as_alice(cls, *words):
        return subprocess.run(list(map(str, words)), env=cls.alice, cwd=cls.home, user=USER, group=USER, extra_groups=[], capture_output=True, text=True,
                              timeout=120)

    def inject(self, limit, *words):
        return self.as_alice(BIN / "ration", "inject", "podman", "--without-cdi", "--limit", limit, "--", "run", "--rm", IMAGE, *words)

    def test_a_limit_by_mounts_holds(self):
        done = self.inject("3GiB", "ration-workload", "total")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(3 * GIB)), done.stderr)

    def test_every_way_of_the_probe_is_held(self):
        done = self.inject("2GiB", "ration-workload", "probe", "64")
        ways = [line.split() for line in done.stdout.splitlines()]
        self.assertGreaterEqual(len(ways), 28, done.stdout + done.stderr)
        self.assertLessEqual(max(int(way[1]) for way in ways), 2 * GIB, done.stdout)

    def test_a_device_of_the_machines_daemon_is_refused_with_what_to_type(self):
        self.until(lambda: pathlib.Path("/run/cdi/ration-tenant.json").exists(), "the devices are published")
        os.chmod(self.folder, 0o755)
        done = self.as_alice("podman", "run", "--rm", "--device", "ration.sh/tenant=nlp", IMAGE, "ration-workload", "total")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertIn("podman --without-cdi --limit 4GiB -- run IMAGE", done.stderr)


if __name__ == "__main__":
    missing = Podman.missing() + [name for name in ("newuidmap",) if shutil.which(name) is None]
    if missing or not own_mounts():
        print("skipped: rootless containers need root to make a user, and " + ", ".join(missing or ["a mount namespace"]))
        sys.exit(77)
    if "RATION_TEST_OWN_MOUNTS" not in os.environ:
        os.environ["RATION_TEST_OWN_MOUNTS"] = "1"
        in_own_mounts([sys.executable, *sys.argv])
    unittest.main()
