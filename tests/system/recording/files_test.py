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

    def test_a_run_that_uses_no_gpu_keeps_the_file_of_an_earlier_run(self):
        subprocess.run([*self.run_line(), "/bin/echo"], env=self.environment, check=True, capture_output=True)
        self.assertTrue(self.file.exists(), "an empty recording where there was none")
        subprocess.run([*self.run_line(), BIN / "ration-workload", "steps", "64MiB"], env=self.environment, capture_output=True)
        before = self.file.read_bytes()
        ran = subprocess.run([*self.run_line("--summary", "always"), "/bin/echo"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(self.file.read_bytes(), before)
        self.assertIn("nothing was recorded, because the program used no GPU", ran.stderr)
        self.assertFalse(pathlib.Path(f"{self.file}.parts").exists())

    def test_of_two_runs_that_begin_at_once_one_is_told(self):
        # The program has made no part yet: nothing but the folder says that the file is taken.
        first = subprocess.Popen([*self.run_line(), "/bin/sleep", "60"], env=self.environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(first.communicate)
        self.addCleanup(end_group, first.pid)
        waiting.until(lambda: pathlib.Path(f"{self.file}.parts/run.json").exists(), "it records")
        for arguments in (("run", f"--sim={self.NODE}", "--record", self.file, "--", "/bin/echo", "started"), ("record", "-o", self.file)):
            told = self.asked(*arguments)
            self.assertEqual(told.stdout, "")
            self.assertRegex(told.stderr, "another run is being recorded to|still running and being recorded")
        self.assertTrue(pathlib.Path(f"{self.file}.parts/run.json").exists())
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        self.assertEqual(self.asked("run", f"--sim={self.NODE}", "--record", self.file, "--", "/bin/echo", "started").stdout, "started\n")

    def test_a_folder_of_somebodys_is_left_alone(self):
        theirs = pathlib.Path(f"{self.file}.parts")
        theirs.mkdir()
        (theirs / "letter").write_text("mine")
        told = self.asked("run", f"--sim={self.NODE}", "--record", self.file, "--", "/bin/echo", "started")
        self.assertIn("E1815", told.stderr)
        self.assertEqual((theirs / "letter").read_text(), "mine")

    def test_standard_output_is_no_file(self):
        for arguments in (("record", "-o", "-", "--", "/bin/echo", "started"), ("record", "-o", "-"), ("import", self.history(), "-o", "-")):
            told = subprocess.run([BIN / "ration", *arguments], env=self.environment, cwd=self.folder, capture_output=True, text=True)
            self.assertIn("E1815", told.stderr)
            self.assertIn("standard output", told.stderr)
        self.assertFalse((self.folder / "-").exists())

    def test_nothing_out_of_a_file_moves_the_cursor(self):
        name = "\x1b[31mred\u202e"
        history = self.folder / f"{name}.csv"
        history.write_text("t_us,op,id,size,stream,kind,device,account,address,charged,held,process,thread,detail,site\n"
                           f"0,a,1,1048576,0,allocate,0,device,0x1000,2097152,2097152,1,1,0,{name}\n"
                           f"1,-,,0,0,mark,0,device,0x0,0,2097152,1,1,0,{name}\n"
                           f"2,-,,9,0,denied,0,device,0x0,0,2097152,1,1,0,{name}\n")
        recording = self.folder / f"{name}.rec"
        for arguments in (("import", history), ("inspect", recording), ("inspect", recording, "--diff", history), ("whatif", recording), ("whatif", recording, recording), ("whatif", recording, "a=1GiB", "--gpu", "T4"),
                          ("recommend", recording), ("export", recording, "--format", "pprof"), ("inspect", f"{recording}x"), ("record", "-o", recording),
                          ("run", f"--sim={self.NODE}", "--name", "n", "--record", recording, "--", "/bin/true"), ("inspect", recording)):
            told = self.asked(*arguments)
            text = told.stdout + told.stderr
            self.assertNotEqual(text, "")
            self.assertNotRegex(text, "[\x1b\u202e]", arguments)

    def test_an_operation_that_no_history_has_is_named(self):
        history = self.history()
        history.write_text(HISTORY.replace("1131,f", "1131,z"))
        self.assertIn(f"{history}:4: 'z' is not an operation of a history: a allocates a block, f frees it", self.asked("inspect", history).stderr)

    def test_of_a_container_it_is_said_that_it_is_not_recorded(self):
        docker = self.folder / "docker"
        docker.write_text("#!/bin/sh\n")
        docker.chmod(0o755)
        self.environment["PATH"] = f"{self.folder}:{os.environ['PATH']}"
        command = ("record", "-o", self.file, f"--sim={self.NODE}", "--limit", "1GiB")
        told = self.asked(*command, "--", "docker", "run", "image")
        self.assertIn("E1404 ration: the limit could not be enforced on docker, which would not be recorded either: programs in its container", told.stderr)
        self.assertFalse(pathlib.Path(f"{self.file}.parts").exists())
        told = self.asked(*command, "--allow-ungoverned", "--", "docker", "run", "image")
        self.assertIn("the limit is not enforced on docker, which is not recorded either: programs in its container", told.stderr)

    def test_a_run_without_a_limit_has_a_heading(self):
        self.asked("run", f"--sim={self.NODE}", "--record", self.file, "--", "/bin/true")
        told = self.asked("whatif", self.file, "--run").stdout
        self.assertIn("WITHOUT A LIMIT", told.splitlines()[0])

    def test_recordings_of_two_models_are_not_mixed(self):
        files = []
        for node in ("T4", "A100-40", "T4"):
            files.append(self.folder / f"{len(files)}.rec")
            self.asked("run", f"--sim={node}", "--record", files[-1], "--", BIN / "ration-workload", "steps", "64MiB:10ms")
        mixed = self.asked("recommend", *files)
        self.assertEqual((mixed.returncode, mixed.stdout), (2, ""))
        self.assertRegex(mixed.stderr, r"0\.rec was recorded on \S.*T4 of .* and .*1\.rec on .*A100")
        self.assertEqual(self.asked("recommend", files[0], files[2]).returncode, 0)

    def test_a_program_that_nobody_waits_for_has_ended(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.addCleanup(ctypes.CDLL(None).prctl, PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        running = self.holding()
        pid = int(pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()[0])
        os.kill(running.pid, signal.SIGKILL)
        running.wait()  # while it dies it could still wait for the program
        os.kill(pid, signal.SIGKILL)
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
        self.assertIn("half of the freed blocks lived up to 131µs", self.asked("inspect", self.history()).stdout)
        longer = self.folder / "longer.csv"
        longer.write_text(HISTORY.replace("1131", "1132"))
        self.assertIn("half of the freed blocks lived up to 262µs", self.asked("inspect", longer).stdout)

    def test_from_the_moment_that_is_named_on_every_start_fits(self):
        # Both hold 2 MiB late: together they exceed 3 MiB if they start at about the same time, not if the second waits.
        late = self.folder / "late.csv"
        late.write_text(HISTORY.replace("\n0,a,1", "\n9000,a,1").replace("1000,a,2", "10000,a,2").replace("1131,f", "11131,f").replace("5000,f", "15000,f"))
        told = self.asked("whatif", late, "--with", self.history(), "--gpu", "3MiB").stdout
        found = json.loads(self.asked("whatif", late, "--with", self.history(), "--gpu", "3MiB", "-o", "json").stdout)["data"]["side_by_side"]["together"]
        last = max(each["to_seconds"] for each in found["starts_over"])
        self.assertEqual(found["first_safe_start_seconds"], 0)
        self.assertIn(f"from {last:.3f}s on, it fits", told)

    def test_copies_fit_on_one_line(self):
        told = self.asked("whatif", self.history(), "--gpu", "12MiB").stdout
        line = next(line for line in told.splitlines() if line.startswith("copies"))
        self.assertRegex(line, r"^copies +6 always( · \d+ in \d+%( of random starts)?){1,3} · \d+ never  \(")


if __name__ == "__main__":
    unittest.main()
