#!/usr/bin/env python3
"""What the daemon keeps in files when those are damaged, in its way, or cannot be written."""
import contextlib
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node.node_case import Case  # noqa: E402
from node_client import BIN, GIB  # noqa: E402

FILES = ("tenants.json", "limits.json", "leases.json", "folders.json", "schedules.json")


class Damaged(Case):
    configuration = """
[[tenant]]
name = "nlp"
limit = "8GiB"
"""

    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"

    def limit(self):
        rows = {row["tenant"]: row for row in self.get("/api/v1/tenants")}
        return rows["nlp"]["accounts"][0]["limit_bytes"]

    def told(self, name):
        events = [event["text"] for event in self.events("daemon") if name in event["text"] and " is damaged" in event["text"]]
        self.assertEqual(len(events), 1, (name, events))
        kept = list(self.state.glob(name + ".damaged-*"))
        self.assertEqual(len(kept), 1, name)
        self.assertIn(f"It was kept as {kept[0]}.", events[0])
        return events[0], kept[0]

    def test_what_was_cut_off_is_kept_and_told_at_the_start(self):
        self.assertEqual(self.ask("PATCH", "/api/v1/tenants/nlp", {"limit": "4GiB"})[0], 200)
        self.assertEqual(self.ask("PUT", "/api/v1/schedules/night", {"when": "22:00-07:00", "set": {"nlp": "5GiB"}})[0], 200)
        self.stop()
        self.assertEqual({"tenants.json", "schedules.json"} - {path.name for path in self.state.iterdir()}, set())
        cut = {}
        for name in FILES:
            whole = (self.state / name).read_text() if (self.state / name).exists() else '{"boot": "x", "last": 1'
            cut[name] = whole[:len(whole) * 2 // 3]
            (self.state / name).write_text(cut[name])
        self.start()
        self.until(lambda: len([event for event in self.events("daemon") if "is damaged" in event["text"]]) == len(FILES), "all are told")
        for name in FILES:
            self.assertEqual(self.told(name)[1].read_text(), cut[name])
        self.assertIn("ration set TENANT --limit", self.told("tenants.json")[0])
        self.assertEqual(self.limit(), 8 * GIB, "as the configuration says")
        self.assertEqual(self.ask("PATCH", "/api/v1/tenants/nlp", {"limit": "3GiB"})[0], 200)
        self.stop()
        self.start()
        self.assertEqual(self.limit(), 3 * GIB, "and what is set since is kept")
        for name in FILES:
            self.told(name)  # not again

    def test_other_json_is_damage_too(self):
        self.stop()
        for content in ('[]', '7', 'null', '{"nlp": 7}', '[["/x", -1]]', '[["/x", "0"]]', '[{"name": 1}]'):
            for name in FILES:
                for old in self.state.glob(name + "*"):
                    old.unlink()
                (self.state / name).write_text(content)
            self.start()
            self.assertEqual(self.get("/api/v1/health")["problem"], None)
            self.stop()
            good = {"[]": {"folders.json", "schedules.json"}}.get(content, set())
            aside = {path.name.split(".damaged-")[0] for path in self.state.glob("*.json.damaged-*")}
            self.assertEqual(aside, set(FILES) - good, content)

    def test_what_is_no_file_neither_ends_nor_hangs_the_start(self):
        self.stop()
        makes = (lambda path: path.mkdir(), lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/zero"))
        for make in makes:
            for name in FILES:
                for old in self.state.glob(name + "*"):
                    old.rmdir() if old.is_dir() and not old.is_symlink() else old.unlink()
                make(self.state / name)
            self.start()
            self.until(lambda: self.get("/api/v1/health")["looks"] > 1, "it looks")
            self.stop()
            self.assertEqual(len(list(self.state.glob("*.json.damaged-*"))), len(FILES))


class Full(Case):
    """The state folder lies on a disk of its own, which is full for a while."""

    def start(self, *options):
        self.disk = self.folder / "state"
        self.disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "ration-test", self.disk], capture_output=True).returncode != 0:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(subprocess.run, ["umount", self.disk], check=True)
        super().start(*options)

    def test_what_happened_meanwhile_is_told_when_there_is_room_again(self):
        before = self.events()[-1]["id"]
        follower = subprocess.Popen([BIN / "ration", "events", "-f", "-o", "json"], env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (follower.kill(), follower.communicate()))
        self.assertEqual(json.loads(follower.stdout.readline())["type"], "daemon")
        ballast = self.disk / "ballast"
        with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 10))
        program = self.holding("train", "1GiB", "--limit", "2GiB")
        self.row("train")
        self.assertEqual(self.ask("PATCH", "/api/v1/workloads/train", {"limit": "3GiB"})[0], 200)
        program.terminate()
        program.wait()
        self.until(lambda: "train" not in self.rows(), "it ends")
        problem = self.until(lambda: self.get("/api/v1/health")["problem"], "it says that it cannot write")
        self.assertEqual(self.events("started", "resized", "ended"), [], problem)
        self.assertIn("disk is full", problem)
        self.assertIn(problem, self.ration("report").stdout)
        self.assertIn(problem, self.ration("report", "-o", "md").stdout.replace("\\_", "_"))
        self.assertNotIn(problem, self.ration("report", "--window", "2025-01").stdout)
        self.assertIn(problem, self.ration("report", "--last", "train").stderr)
        full_until = time.time()
        ballast.unlink()
        self.until(lambda: self.events("ended"), "the end is told")
        events = [event for event in self.events() if event["id"] > before]
        self.assertEqual([event["type"] for event in events if event["workload"] == "train"], ["started", "resized", "ended"])
        times = [event["time"] for event in events]
        self.assertEqual(times, sorted(times))
        for event in events:
            if event["workload"] == "train":
                self.assertLess(datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp(), full_until)
        self.assertEqual(len([event for event in events if "cannot be written" in event["text"]]), 1, "once, not with every look")
        self.until(lambda: self.get("/api/v1/health")["problem"] is None, "it is well again")
        while (line := json.loads(follower.stdout.readline()))["type"] != "ended":  # who follows is told, too
            self.assertGreaterEqual(line["id"], before)
        self.assertEqual(line["workload"], "train")


if __name__ == "__main__":
    unittest.main(verbosity=2)
