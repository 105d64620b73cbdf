#!/usr/bin/env python3
"""`ration copy-package FOLDER`: the package of an image put on its node, again and again, while programs use what is there."""
import mmap
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["BUILD_BIN"])
GUARD = "lib/ration/shim/libcuda.so.1"


class Copied(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.image, self.node = pathlib.Path(folder.name) / "usr", pathlib.Path(folder.name) / "node"
        for name in ("bin/ration", "bin/another", "lib/another.so", "share/ration/some.json"):
            (self.image / name).parent.mkdir(parents=True, exist_ok=True)
            (self.image / name).write_text("content")
        shutil.copy(BIN / "ration", self.image / "bin/ration")
        shutil.copytree(BIN.parent / "shim", self.image / "lib/ration/shim", ignore=shutil.ignore_patterns("CMakeFiles"))

    def copy(self, folder=None):
        return subprocess.run([self.image / "bin/ration", "copy-package", folder or self.node], capture_output=True, text=True)

    def files(self, folder):
        return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}

    def copied(self):
        done = self.copy()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{self.node} has ration ", done.stdout)

    def test_the_node_has_what_is_rations_and_nothing_else_of_the_image(self):
        self.copied()
        self.assertEqual(self.files(self.node), {name: file for name, file in self.files(self.image).items() if "another" not in name})
        self.assertEqual(subprocess.run([self.node / "bin/ration", "version"], capture_output=True).returncode, 0)

    def test_a_file_in_use_is_replaced_and_its_bytes_stay(self):
        self.copied()
        before = (self.node / GUARD).read_bytes()
        with (self.node / GUARD).open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            after = before[:-1] + bytes([before[-1] ^ 1]) + b"more"
            (self.image / GUARD).write_bytes(after)
            self.copied()
            self.assertEqual((mapped[:], len(file.read())), (before, len(before)))
        self.assertEqual((self.node / GUARD).read_bytes(), after)

    def test_a_program_that_runs_is_replaced(self):
        self.copied()
        shutil.copy("/bin/sleep", self.node / "bin/ration-workload")
        with subprocess.Popen([self.node / "bin/ration-workload", "100"]) as runs:
            shutil.copy(BIN / "ration", self.image / "bin/ration-workload")
            self.copied()
            self.assertIsNone(runs.poll())
            runs.kill()

    def test_what_is_as_it_should_be_stays(self):
        self.copied()
        before = {path: path.stat().st_ino for path in self.node.rglob("*")}
        self.copied()
        self.assertEqual({path: path.stat().st_ino for path in self.node.rglob("*")}, before)

    def test_no_link_is_written_through(self):
        victim = self.image / "bin/another"
        (self.node / "bin").mkdir(parents=True)
        (self.node / "bin/ration").symlink_to(victim)
        self.copied()
        self.assertEqual(victim.read_text(), "content")
        self.assertFalse((self.node / "bin/ration").is_symlink())

    def test_an_image_without_its_guard_is_refused(self):
        (self.image / GUARD).unlink()
        done = self.copy()
        self.assertEqual(done.returncode, 1)
        self.assertIn("E1406", done.stderr)
        self.assertFalse(self.node.exists())

    def test_what_cannot_be_written_is_named(self):
        done = self.copy(self.image / "bin/another")
        self.assertEqual(done.returncode, 1)
        self.assertIn("E1716", done.stderr)
        self.assertIn("bin/another/bin/ration cannot be written: Not a directory", done.stderr)


if __name__ == "__main__":
    unittest.main()
