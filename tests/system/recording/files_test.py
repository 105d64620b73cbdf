#!/usr/bin/env python3
"""A recording takes the place of a file alone, and never that of one which is being written or which nobody named."""
import contextlib
import ctypes
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import unittest

from recorded import BIN, Recorded, waiting

PR_SET_CHILD_SUBREAPER = 36
# Two blocks; the second one's life is 131 microseconds.
HISTORY = "t_us,op,id,size,stream\n0,a,1,1048576,0\n1000,a,2,1048576,0\n1131,f,2,1048576,0\n5000,f,1,1048576,0\n"


def end_group(pid):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


class Files(Recorded):
    def asked(self, *arguments):
        return subprocess.run([BIN / "ration", *arguments], env=self.environment, capture_output=True, text=True)

    def history(self):
        path = self.folder / "history.csv"
        path.write_text(HISTORY)
        return path

    def holding(self):
        """Starts a recorded program and waits until it holds memory."""
        running = subprocess.Popen([*self.run_line(), BIN / "ration-workload", "hold", "64MiB"], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(running.communicate)
        self.addCleanup(end_group, running.pid)
        running.stdout.readline()
        return running

    def test_a_pipe_or_a_device_keeps_its_name(self):
        os.mkfifo(self.file)
        ran = subprocess.run([*self.run_line(), "/bin/echo", "started"], env=self.environment, capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stdout), (125, ""))
        self.assertIn("E1815", ran.stderr)
        imported = self.asked("import", self.history(), "-o", self.file)
        self.assertIn("E1815", imported.stderr)
        self.assertTrue(stat.S_ISFIFO(self.file.stat().st_mode))

    def test_a_second_run_does_not_take_the_file_of_one_that_is_recorded(self):
        first = self.holding()
        second = subprocess.run([*self.run_line(), "/bin/echo", "started"], env=self.environment, capture_output=True, text=True)
        self.assertEqual((second.returncode, second.stdout), (125, ""))
        self.assertIn("E1815", second.stderr)
        first.send_signal(signal.SIGTERM)
        first.wait()
        self.assertTrue(self.inspected()["complete"])

    def test_a_program_that_nobody_waits_for_has_ended(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.addCleanup(ctypes.CDLL(None).prctl, PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        running = self.holding()
        pid = int(pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()[0])
        os.kill(running.pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        running.wait()
        waiting.until(lambda: ") Z " in pathlib.Path(f"/proc/{pid}/stat").read_text(), "it is a zombie")
        packed = self.asked("record", "-o", self.file)
        os.waitpid(pid, 0)
        self.assertIn("events of 1 process", packed.stderr)
        self.assertTrue(self.file.exists())

    def test_import_replaces_what_was_named_and_nothing_else(self):
        recording = self.folder / "history.rec"
        recording.write_text("mine")
        told = self.asked("import", self.history())
        self.assertEqual((told.returncode, recording.read_text()), (2, "mine"))
        self.assertIn(f"ration import {self.history()} -o {recording}", told.stderr)
        self.assertEqual(self.asked("import", self.history(), "-o", recording).returncode, 0)
        self.assertEqual(self.inspected(recording)["events"], 4)

    def test_recommend_takes_a_recording_that_is_missing_for_one(self):
        told = self.asked("recommend", self.folder / "missing.rec")
        self.assertIn("E1811", told.stderr)
        self.assertIn("missing.rec", told.stderr)

    def test_with_a_time_a_difference_is_of_what_was_held_then(self):
        history = self.history()
        for format, row in (("text", "held"), ("csv", "0,held,-,1048576,1048576,-")):
            told = self.asked("inspect", history, "--diff", history, "--at", "2ms", "-o", format).stdout
            self.assertIn(row, told)
            self.assertNotIn("peak", told)
        self.assertIn("peak", self.asked("inspect", history, "--diff", history).stdout)

    def test_a_life_of_microseconds_has_a_time(self):
        # Lifetimes are kept by powers of two nanoseconds: what is printed is at least what half of the blocks lived.
        self.assertIn("half of those freed lived up to 0.000131s", self.asked("inspect", self.history()).stdout)
        longer = self.folder / "longer.csv"
        longer.write_text(HISTORY.replace("1131", "1132"))
        self.assertIn("half of those freed lived up to 0.000262s", self.asked("inspect", longer).stdout)

    def test_from_the_moment_that_is_named_on_every_start_fits(self):
        # Both hold 2 MiB late: together they exceed 3 MiB if they start at about the same time, not if the second waits.
        late = self.folder / "late.csv"
        late.write_text(HISTORY.replace("\n0,a,1", "\n9000,a,1").replace("1000,a,2", "10000,a,2").replace("1131,f", "11131,f").replace("5000,f", "15000,f"))
        told = self.asked("whatif", late, "--with", self.history(), "--gpu", "3MiB").stdout
        found = json.loads(self.asked("whatif", late, "--with", self.history(), "--gpu", "3MiB", "-o", "json").stdout)["data"]["side_by_side"]["together"]
        last = max(each["to_seconds"] for each in found["starts_over"])
        self.assertEqual(found["first_safe_start_seconds"], 0)
        self.assertIn(f"from {last:.3f}s on it fits", told)

    def test_copies_fit_on_one_line(self):
        told = self.asked("whatif", self.history(), "--gpu", "12MiB").stdout
        line = next(line for line in told.splitlines() if line.startswith("copies"))
        self.assertRegex(line, r"^copies +6 always( · \d+ in \d+%( of random starts)?){1,3} · \d+ never  \(")


if __name__ == "__main__":
    unittest.main()
