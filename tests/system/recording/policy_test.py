#!/usr/bin/env python3
"""Recordings that a policy asks for (`[[policy]] record = true`): the daemon has one file a run, that of its user, also after a kill, and no more bytes than it may keep."""
import os
import pathlib
import signal
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "node"), str(HERE.parent)]
from node_case import NOBODY, NODE, Case  # noqa: E402
from node_client import BIN  # noqa: E402
from recording_file import Recording  # noqa: E402


class Recorded(Case):
    configuration = '[recordings]\nkeep = "KEEP"\n[[policy]]\nmatch = { label = { team = "small" } }\nrecord = true\n'
    keep = "1GiB"

    def setUp(self):
        self.configuration = self.configuration.replace("KEEP", self.keep)
        super().setUp()
        self.own = pathlib.Path(self.environment["RATION_RUNTIME_DIR"], "own")
        self.environment["XDG_STATE_HOME"] = str(self.own)

    def kept(self):
        return sorted((self.folder / "state/recordings").glob("*.rec"))

    def run_line(self, name, *options):
        return [BIN / "ration", "run", NODE, "--name", name, "--limit", "1GiB", *options, "--"]

    def run_once(self, name, *options):
        done = subprocess.run([*self.run_line(name, *options), BIN / "ration-workload", "steps", "64MiB:10ms"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done


class Policy(Recorded):
    def test_a_run_that_the_policy_matches_is_kept_and_no_other(self):
        self.run_once("other")
        done = self.run_once("train", "--label", "team=small")
        self.assertNotIn(".rec", done.stderr)
        kept = self.until(self.kept, "the recording")
        self.assertEqual(len(kept), 1)
        self.assertRegex(kept[0].name, r"^train-\d+-\d+\.rec$")
        self.assertEqual((kept[0].stat().st_mode & 0o777, kept[0].parent.stat().st_mode & 0o777), (0o600, 0o700))
        recording = Recording(kept[0])
        self.assertEqual((recording.header["workload"], recording.header["complete"]), ("train", True))
        self.assertGreater(sum(event["bytes"] for event in recording.events if event["kind"] == "allocate"), 32 << 20)
        self.until(lambda: not list((self.own / "ration/recorded").iterdir()), "the user's file is gone")

    def test_a_recording_of_the_users_own_stays_theirs(self):
        mine = self.own.parent / "mine.rec"
        self.run_once("train", "--label", "team=small", "--record", mine)
        self.run_once("next", "--label", "team=small")
        self.until(self.kept, "the next one")
        self.assertTrue(mine.exists())
        self.assertEqual(len(self.kept()), 1)

    def test_after_a_kill_of_everything_the_daemon_makes_the_file(self):
        running = subprocess.Popen([*self.run_line("train", "--label", "team=small"), BIN / "ration-workload", "hold", "64MiB"], env=self.environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(running.communicate)
        running.stdout.readline()
        self.assertEqual(self.kept(), [])
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        kept = self.until(self.kept, "the recording")
        self.assertEqual([event["bytes"] for event in Recording(kept[0]).events if event["kind"] == "allocate" and event["address"]], [64 << 20])

    def test_what_a_user_puts_in_the_place_of_the_file_is_not_kept(self):
        script = 'rm -rf "$RATION_RECORD"; file="${RATION_RECORD%.parts}"; ln -s /etc/passwd "$file"'
        subprocess.run([*self.run_line("evil", "--label", "team=small"), "/bin/sh", "-c", script], env=self.environment, capture_output=True)
        self.run_once("good", "--label", "team=small")
        kept = self.until(self.kept, "the recording of the second run")
        self.assertEqual([path.name.split("-")[0] for path in kept], ["good"])

    @unittest.skipIf(os.geteuid() != 0, "root alone gives the rights of another user")
    def test_the_run_of_another_user_is_taken_with_that_users_rights(self):
        self.folder.chmod(0o755)
        (self.folder / "ration.sock").chmod(0o666)
        theirs = self.folder / "theirs"
        theirs.mkdir(mode=0o700)
        state = theirs / "state"
        environment = dict(self.environment, RATION_SOCKET=str(self.folder / "ration.sock"), RATION_RUNTIME_DIR=str(theirs), HOME=str(theirs), XDG_STATE_HOME=str(state))
        secret = self.folder / "secret.rec"  # a recording that only root may read
        self.run_once("secret", "--label", "team=small")
        self.until(self.kept, "a recording")[0].rename(secret)
        steal = f'rm -rf "$RATION_RECORD"; ln -s {secret} "${{RATION_RECORD%.parts}}"'
        (device,) = (each.parent for each in self.folder.glob("*/shared"))  # the simulated GPU, which only root may use else
        for path in (theirs, device, *device.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        for name, program in (("theft", ["/bin/sh", "-c", steal]), ("theirs", [BIN / "ration-workload", "steps", "64MiB:10ms"])):
            done = subprocess.run([*self.run_line(name, "--label", "team=small"), *program], env=environment, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        kept = self.until(self.kept, "the recording")
        self.assertEqual([path.name.split("-")[0] for path in kept], ["theirs"])
        self.assertEqual((kept[0].stat().st_uid, Recording(kept[0]).header["workload"]), (0, "theirs"))
        self.assertEqual((state / "ration/recorded").stat().st_mode & 0o777, 0o700)


class Little(Recorded):
    keep = "4KiB"

    def test_the_oldest_goes_first(self):
        for number in range(6):
            self.run_once(f"run{number}", "--label", "team=small")
            self.until(lambda: any(path.name.startswith(f"run{number}-") for path in self.kept()), "the newest recording")
        names = [path.name.split("-")[0] for path in self.kept()]
        self.assertNotIn("run0", names)
        self.assertLessEqual(sum(path.stat().st_size for path in self.kept()), 4096)


if __name__ == "__main__":
    unittest.main()
