#!/usr/bin/env python3
"""A recording that cannot be written costs events, which are counted, and never the program."""
import os
import pathlib
import subprocess
import sys
import unittest

from recorded import BIN, Recorded

WORK = """
import ctypes
from ctypes import byref, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
context = c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
address = c_uint64()
for _ in range(%d):
    assert cuda.cuMemAlloc_v2(byref(address), c_size_t(1 << 20)) == 0
    assert cuda.cuMemFree_v2(address) == 0
print("done")
"""


class Disk(Recorded):
    def recorded(self, work, *before):
        return subprocess.run([*before, *self.run_line(), sys.executable, "-c", work], env=self.environment, capture_output=True, text=True)

    def in_a_small_disk(self, size, work):
        """Runs with the recording on a file system of that size, in a mount namespace of its own."""
        disk = self.folder / "disk"
        disk.mkdir()
        self.file = disk / "train.rec"
        line = " ".join(f"'{word}'" for word in [*self.run_line(), sys.executable, self.folder / "work.py"])
        (self.folder / "work.py").write_text(work)
        keep = f"cp -r {disk}/. {self.folder}/kept"
        script = f"mount -t tmpfs -o size={size} disk {disk} && mkdir {self.folder}/kept && {line}; code=$?; {keep}; exit $code"
        ran = subprocess.run(["unshare", "-rm", "sh", "-c", script], env=self.environment, capture_output=True, text=True)
        if "unshare" in ran.stderr or "mount:" in ran.stderr:
            self.skipTest(ran.stderr)
        return ran

    def test_a_full_disk_loses_events_and_says_how_many(self):
        ran = self.in_a_small_disk("1m", WORK % 30_000)
        self.assertEqual((ran.returncode, ran.stdout), (0, "done\n"), ran.stderr)
        line = next(line for line in ran.stderr.splitlines() if "events of" in line)
        lost = int(line.split(" lost")[0].split(" · ")[-1].replace(",", ""))
        kept = int(line.split(" events")[0].split(" · ")[-1].replace(",", ""))
        self.assertIn("No space left on device", line)
        self.assertGreater(lost, 1_000)
        found = self.inspected(self.folder / "kept/train.rec")
        self.assertEqual((found["lost"], found["events"], found["complete"]), (lost, kept, False))
        blocks = next(size for size in found["sizes"] if size["upto_bytes"] == 1 << 20)
        # Everything else: a context, the process, and what it asked.
        self.assertIn(lost + blocks["count"] + blocks["freed"] - 60_000, range(-1, 10))

    def test_a_thread_that_gets_the_last_room_of_a_disk_loses_nothing(self):
        """The fifth thread needs more than the first four share, and the disk has room for it alone."""
        threads = """
import threading
def work():
    assert cuda.cuCtxSetCurrent(context) == 0
    for _ in range(10):
        assert cuda.cuMemAlloc_v2(byref(address), c_size_t(1 << 20)) == 0
        assert cuda.cuMemFree_v2(address) == 0
for _ in range(4):
    thread = threading.Thread(target=work)
    thread.start(), thread.join()
"""
        ran = self.in_a_small_disk("448k", WORK % 10 + threads)
        self.assertEqual((ran.returncode, ran.stdout), (0, "done\n"), ran.stderr)
        self.assertIn(" 0 lost", ran.stderr)

    def test_a_disk_without_room_for_a_part_loses_all(self):
        ran = self.in_a_small_disk("12k", WORK % 1_000)
        self.assertEqual((ran.returncode, ran.stdout), (0, "done\n"), ran.stderr)
        self.assertIn(" lost (No space left on device)", ran.stderr)

    def test_a_disk_without_room_for_the_folder_keeps_nothing_of_it(self):
        ran = self.in_a_small_disk("4k", WORK % 1)
        self.assertEqual((ran.returncode, ran.stdout), (125, ""), ran.stderr)
        self.assertIn("E1815", ran.stderr)
        self.assertEqual(list((self.folder / "kept").iterdir()), [])

    def test_a_program_that_fills_the_disk_is_told_how_to_make_the_file_later(self):
        ran = self.in_a_small_disk("1m", WORK % 10 + "try: open(%r, 'wb', 0).write(bytes(1 << 21)) and open(%r, 'ab', 0).write(bytes(1 << 21))\nexcept OSError: pass\n"
                                   % ((str(self.folder / "disk/filler"),) * 2))
        self.assertEqual((ran.returncode, ran.stdout), (0, "done\n"), ran.stderr)
        self.assertIn(f"ration record --sim={self.NODE} -o {self.folder}/disk/train.rec", ran.stderr)
        self.file = self.folder / "kept/train.rec"
        self.assertIn(" 0 lost", subprocess.run([BIN / "ration", "record", "-o", self.file], env=self.environment, capture_output=True, text=True).stderr)
        self.assertEqual(self.inspected()["events"], len(self.recording().events))

    def test_a_limit_on_the_size_of_files_kills_nothing(self):
        ran = self.recorded("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n" + WORK % 10_000)
        self.assertEqual((ran.returncode, ran.stdout), (0, "done\n"), ran.stderr)
        self.assertIn("(File too large)", ran.stderr)

    def test_a_program_that_closes_every_descriptor_is_recorded(self):
        ran = self.recorded(WORK % 10 + "import os; os.closerange(3, 1000); own = open('/dev/null', 'w'); own2 = open('/dev/null', 'w')\n" + (WORK % 5_000).replace("done", "again"))
        self.assertEqual((ran.returncode, ran.stdout), (0, "done\nagain\n"), ran.stderr)
        blocks = next(size for size in self.inspected()["sizes"] if size["upto_bytes"] == 1 << 20)
        self.assertEqual((blocks["count"], blocks["freed"]), (5_010, 5_010))

    def test_a_folder_that_cannot_be_written_starts_nothing(self):
        self.file = pathlib.Path("/proc/train.rec")
        ran = self.recorded(WORK % 1)
        self.assertEqual((ran.returncode, ran.stdout), (125, ""))
        self.assertIn("E1815", ran.stderr)

    def test_of_a_folder_of_somebody_else_nothing_is_removed(self):
        theirs = pathlib.Path(str(self.file) + ".parts")
        theirs.mkdir()
        (theirs / "thesis.tex").write_text("all of it")
        ran = self.recorded(WORK % 1)
        self.assertEqual((ran.returncode, (theirs / "thesis.tex").read_text()), (125, "all of it"))

    def test_files_that_are_no_recordings_are_told(self):
        for name, content in {"text": b"hello", "empty": b"", "cut": b"rationR1HEAD", "newer": b"rationR9" + bytes(100), "binary": os.urandom(5_000)}.items():
            with self.subTest(file=name):
                path = self.folder / name
                path.write_bytes(content)
                told = subprocess.run([BIN / "ration", "inspect", path], env=self.environment, capture_output=True, text=True)
                self.assertEqual(told.stdout, "")
                self.assertIn(told.returncode, (1, 2))
                self.assertRegex(told.stderr, "^E181[16] ")
                self.assertEqual(len(told.stderr.splitlines()), 2, told.stderr)


if __name__ == "__main__":
    unittest.main()
