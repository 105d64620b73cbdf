#!/usr/bin/env python3
"""Recordings that a policy asks for (`[[policy]] record = true`): the daemon has one file a run, that of its user, also after a kill, and no more bytes than it may keep."""
import os
import pathlib
import signal
import subprocess
import sys
import time
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
        self.assertRegex(kept[0].name, rf"^train-\d+-\d+\.uid-{os.geteuid()}\.rec$")
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

    def test_what_is_no_recording_stays_with_its_user_and_an_event_says_so(self):
        subprocess.run([*self.run_line("odd", "--label", "team=small"), "/bin/sh", "-c", 'rm -rf "$RATION_RECORD"; echo > "${RATION_RECORD%.parts}"'], env=self.environment, capture_output=True)
        told = self.until(lambda: [event for event in self.events("daemon") if event.get("message_id") == "recording.not_taken"], "an event")
        self.assertEqual(pathlib.Path(told[0]["arguments"]["file"]).read_text(), "\n")
        self.assertEqual(list((self.folder / "state/recordings").iterdir()), [])

    def test_no_file_is_replaced(self):
        self.run_once("other", "--label", "team=small")
        (first,) = self.until(self.kept, "a recording")
        run, now = int(first.name.split("-")[1]) + 1, int(time.time())
        there = [first.with_name(f"train-{run}-{second}.uid-{os.geteuid()}.rec") for second in range(now, now + 60)]
        for path in there:
            path.write_text("here before")
        self.run_once("train", "--label", "team=small")
        (second,) = self.until(lambda: [path for path in self.kept() if path.name.endswith(f"-2.uid-{os.geteuid()}.rec")], "the recording has another name")
        self.assertEqual(Recording(second).header["workload"], "train")
        self.assertEqual({path.read_text() for path in there}, {"here before"})

    def test_what_an_earlier_daemon_had_begun_to_take_is_removed(self):
        self.stop()
        begun, other = (self.folder / "state/recordings" / name for name in ("train-1-2.uid-7.rec.new", "notes.new"))
        begun.write_text("begun"), other.write_text("mine")
        self.start()
        self.assertFalse(begun.exists())
        self.assertTrue(other.exists())

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
        self.assertEqual((kept[0].stat().st_uid, Recording(kept[0]).header["workload"]), (NOBODY, "theirs"))
        self.assertEqual((state / "ration/recorded").stat().st_mode & 0o777, 0o700)


class Little(Recorded):
    keep = "4KiB"

    def test_the_oldest_goes_first_and_nothing_that_the_daemon_did_not_take(self):
        own = self.folder / "state/recordings/mine.rec"
        own.write_bytes(bytes(8192))
        os.utime(own, (1, 1))
        for number in range(6):
            self.run_once(f"run{number}", "--label", "team=small")
            self.until(lambda: any(path.name.startswith(f"run{number}-") for path in self.kept()), "the newest recording")
        kept = [path for path in self.kept() if path != own]
        self.assertNotIn("run0", [path.name.split("-")[0] for path in kept])
        self.assertLessEqual(sum(path.stat().st_size for path in kept), 4096)
        self.assertTrue(own.exists())

    def test_more_than_is_kept_stays_with_its_user(self):
        script = 'rm -rf "$RATION_RECORD"; head -c 100000 /dev/zero > "${RATION_RECORD%.parts}"'
        subprocess.run([*self.run_line("large", "--label", "team=small"), "/bin/sh", "-c", script], env=self.environment, capture_output=True)
        told = self.until(lambda: [event for event in self.events("daemon") if event.get("message_id") == "recording.too_large"], "an event")
        self.assertEqual(told[0]["arguments"]["keep_bytes"], 4096)
        self.assertEqual(pathlib.Path(told[0]["arguments"]["file"]).stat().st_size, 100000)
        self.assertEqual(self.kept(), [])


if __name__ == "__main__":
    unittest.main()
