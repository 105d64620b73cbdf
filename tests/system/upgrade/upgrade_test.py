#!/usr/bin/env python3
"""An upgrade while workloads run: the previous package (tests/data/README.md) and this one on one machine, in one runtime
folder. The machine's driver is the simulated one, found through LD_LIBRARY_PATH: it is neither package's."""
import json
import os
import pathlib
import platform
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE, BIN = pathlib.Path(os.environ["SOURCE"]), pathlib.Path(os.environ["BUILD_BIN"])
PREVIOUS = SOURCE / f"tests/data/ration-0.1.0-linux-{platform.machine()}.tar.xz"
NEW = BIN / "ration"
GIB = 1 << 30
FORMAT_AT = 8  # in a book; the same in all versions


class Upgrade(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        subprocess.run(["tar", "-xJf", PREVIOUS, "-C", folder.name], check=True)
        cls.old = pathlib.Path(folder.name) / "bin/ration"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_"))}
        self.environment = dict(own, RATION_RUNTIME_DIR=str(self.folder / "run"), RATION_SIM_DIR=str(self.folder / "node"), HOME=str(self.folder),
                                LD_LIBRARY_PATH=str(BIN.parent / "sim"))

    def does(self, ration, *words):
        return subprocess.run([ration, *map(str, words)], env=self.environment, capture_output=True, text=True, timeout=100)

    def said(self, ration, *words):
        done = self.does(ration, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout) if "json" in words else done.stdout

    def holding(self, ration, name, size="1GiB"):
        """A workload that holds that much, and the path of its book."""
        process = subprocess.Popen([ration, "run", "--name", name, "--limit", "4GiB", "--", BIN / "ration-workload", "hold", size], env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        self.assertNotEqual(process.stdout.readline(), "", "it ended")
        (book,) = (self.folder / "run/books").glob(f"{name}.*.book")
        return process, book

    def daemon(self, ration):
        process = subprocess.Popen([ration, "serve", "--listen", "", "--state", self.folder / "state"], env=self.environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.send_signal(signal.SIGTERM), process.communicate()))
        self.assertIn("ration", process.stdout.readline())
        return process

    def row(self, ration, name):
        (row,) = [row for row in self.said(ration, "ps", "-o", "json")["data"] if row["workload"] == name]
        return row

    def rewrite_format(self, book, number):
        with open(book, "r+b") as file:
            file.seek(FORMAT_AT)
            (before,) = struct.unpack("<I", file.read(4))
            file.seek(FORMAT_AT)
            file.write(struct.pack("<I", number))
        self.addCleanup(self.put_back, book, before)  # its program ends with it
        return before

    @staticmethod
    def put_back(book, number):
        with open(book, "r+b") as file:
            file.seek(FORMAT_AT)
            file.write(struct.pack("<I", number))

    def test_a_running_workload_of_the_previous_version_is_shown_and_changed_by_this_one(self):
        self.holding(self.old, "job")
        row = self.row(NEW, "job")
        self.assertGreaterEqual(row["used_bytes"], GIB)
        self.said(NEW, "set", "job", "--limit", "2GiB")
        self.assertEqual(self.row(self.old, "job")["limit_bytes"], 2 * GIB)
        doctor = self.said(NEW, "doctor", "--only", "books.folder", "-o", "json")["data"][0]
        self.assertEqual((doctor["result"], "1 running" in doctor["message"]), ("OK", True), doctor)
        # Its daemon takes it over, too.
        self.daemon(NEW)
        self.said(NEW, "set", "job", "--limit", "3GiB")
        deadline = time.monotonic() + 30
        while self.row(self.old, "job")["limit_bytes"] != 3 * GIB and time.monotonic() < deadline:
            pass
        self.assertEqual(self.row(self.old, "job")["limit_bytes"], 3 * GIB)

    def test_a_denial_under_the_previous_version_is_explained_by_this_one(self):
        done = self.does(self.old, "run", "--name", "greedy", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("2.00 GiB more would not fit", self.said(NEW, "why", "greedy"))

    def test_both_stand_side_by_side(self):
        self.holding(self.old, "before")
        self.holding(NEW, "after")
        for ration in (self.old, NEW):
            self.assertEqual({row["workload"] for row in self.said(ration, "ps", "-o", "json")["data"]}, {"before", "after"})
            for name in ("before", "after"):
                self.said(ration, "set", name, "--limit", "3GiB")
        again = self.does(NEW, "run", "--name", "before", "--limit", "1GiB", "--", "true")
        self.assertIn("E1410", again.stderr, "a name is taken by either")

    def test_a_book_of_another_format_is_refused_with_what_to_do(self):
        _, book = self.holding(self.old, "job")
        self.rewrite_format(book, 9)
        who = f"workload 'job' was started by another version of ration ({self.old}, pid "
        for words in (("set", "job", "--limit", "2GiB"), ("stop", "job", "--yes"), ("why", "job"), ("ps", "job")):
            done = self.does(NEW, *words)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("E1450", done.stderr)
            self.assertIn(who, done.stderr)
            self.assertIn(f"{self.old} ps", done.stderr)
        done = self.does(NEW, "ps")
        self.assertEqual(done.returncode, 0)
        self.assertIn(who, done.stderr)
        (warning,) = [one for one in self.said(NEW, "ps", "-o", "json")["warnings"] if one["id"] == "E1450"]
        self.assertIn("books of format 9; this ration has format ", warning["message"])
        doctor = self.said(NEW, "doctor", "--only", "books.folder", "-o", "json")["data"][0]
        self.assertEqual(doctor["result"], "WARN")
        self.assertIn(who, doctor["message"])
        self.assertNotIn("rm ", doctor["fix"], "somebody still writes it")
        # The others go on, also under a daemon.
        self.daemon(NEW)
        self.holding(NEW, "other")
        self.assertEqual(self.row(NEW, "other")["limit_bytes"], 4 * GIB)
        self.assertIn("E1450", self.does(NEW, "set", "job", "--limit", "2GiB").stderr)

    def test_what_ended_in_another_format_can_be_removed(self):
        process, book = self.holding(self.old, "job")
        process.terminate()
        process.communicate()
        self.rewrite_format(book, 9)
        doctor = self.said(NEW, "doctor", "--only", "books.folder", "-o", "json")["data"][0]
        self.assertEqual((doctor["result"], doctor["fix"]), ("WARN", f"rm {book}"))
        self.assertEqual(self.does(NEW, "ps").stderr, "")

    def test_the_previous_version_leaves_a_newer_format_alone(self):
        _, book = self.holding(NEW, "job")
        self.rewrite_format(book, 4711)
        before = book.read_bytes()
        self.assertRegex(self.said(self.old, "ps"), r"\?/ration-workload .* NO ")
        done = self.does(self.old, "set", "job", "--limit", "2GiB")
        self.assertEqual((done.returncode, "E1801" in done.stderr), (3, True), done.stderr)
        self.assertIn("another version of ration", self.said(self.old, "doctor", "--only", "books.folder"))
        self.assertEqual(self.does(self.old, "run", "--limit", "1GiB", "--", "true").returncode, 0)
        self.assertEqual(book.read_bytes(), before)


def why_not():
    if not PREVIOUS.exists():
        return f"no previous package for {platform.machine()}"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-xJf", PREVIOUS, "-C", folder], check=True)
        done = subprocess.run([pathlib.Path(folder) / "bin/ration", "--version"], capture_output=True, text=True)
    return "" if done.returncode == 0 else f"the previous package does not start here: {done.stderr.strip()}"


if __name__ == "__main__":
    if problem := why_not():
        print(f"skipped: {problem}")
        sys.exit(77)
    unittest.main()
