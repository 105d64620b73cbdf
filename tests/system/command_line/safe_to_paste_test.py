#!/usr/bin/env python3
"""What the command line prints is true and safe to paste: --dry-run changes nothing, a printed command is about the same node, a suggested
fix fixes."""
import hashlib
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "node"))
from node_case import Case, NODE  # noqa: E402
from node_client import BIN  # noqa: E402

# What each verb that changes something would do. A verb that is in neither table fails the test.
CHANGES = {
    "run": [["run", NODE, "--limit", "1GiB", "--dry-run", "--", "touch", "started"]],
    "split": [["split", NODE, "0", "--into", "2", "--dry-run"], ["split", NODE, "0", "--off", "--dry-run"]],
    "set": [["set", "held", "--limit", "4GiB", "--dry-run"], ["set", "held", "--guarantee", "1GiB", "--dry-run"],
            ["set", "--schedule", "night=22:00-07:00:held=50%", "--dry-run"]],
    "serve": [["serve", NODE, "--listen", "", "--dry-run"]],
    "service": [["service", action, "--user", "--dry-run"] for action in ("install", "uninstall", "start", "stop", "restart")] +
               [["service", "install", "--user", "--now", "--dry-run"]],
    "trim": [["trim", "held", "--dry-run"], ["trim", "--idle", "0s", "--dry-run"]],
    "suspend": [["suspend", "held", "--dry-run"]],
    "resume": [["resume", "held", "--dry-run"]],
    "report": [["report", "close", "2026-01", "--dry-run"]],
    "config": [["config", "init", "fresh.toml", "--dry-run"], ["config", "init", "old.toml", "--force", "--dry-run"],
               ["config", "reload", "--dry-run"]],
    "demo": [["demo", "--for", "1s", "--dry-run"]],
}
READS = {"ps", "top", "explain", "why", "plan", "fits", "doctor", "events", "recommend", "env", "sim", "help", "completion"}
ONLY_READ = [["service", "status"], ["service", "print"], ["config", "print"], ["config", "path"], ["config", "validate"], ["report"]]


class SafeToPaste(Case):
    configuration = '[[tenant]]\nname = "held"\n'

    def setUp(self):
        super().setUp()
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {self.folder}/systemctl.log\n')
        (tools / "systemctl").chmod(0o755)
        self.environment["PATH"] = f"{tools}:{self.environment['PATH']}"
        self.environment.pop("XDG_CONFIG_HOME", None)
        self.environment["XDG_RUNTIME_DIR"] = str(self.folder)

    def verbs(self):
        return re.search(r"Verbs: (.*)", self.ration().stdout).group(1).split()

    def state(self):
        """Every file that is somebody's: not the daemon's own record, which goes on by itself."""
        files = {}
        for path in sorted(self.folder.rglob("*")):
            first = path.relative_to(self.folder).parts[0]  # digits: the simulated node
            if path.is_file() and first != "state" and not first.isdigit() and path.suffix != ".book":
                files[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        limits = {name: (row["limit_bytes"], row["guarantee_bytes"], row["state"]) for name, row in self.rows().items()}
        kept = {name: (self.folder / "state" / name).read_text() for name in ("schedules.json", "tenants.json") if (self.folder / "state" / name).exists()}
        return files, limits, kept, sorted(path.name for path in (self.folder / "books").iterdir()), self.events("resized", "trimmed", "suspending", "config")

    def test_dry_run_changes_nothing(self):
        self.holding("held", "1GiB")
        self.row("held")
        unit = self.folder / ".config/systemd/user/rationd.service"
        unit.parent.mkdir(parents=True)
        unit.write_text("[Unit]\n")
        (self.folder / "old.toml").write_text("[defaults]\n")
        before = self.state()
        for verb in self.verbs():
            self.assertTrue((verb in CHANGES) != (verb in READS), f"{verb}: does it change anything?")
            for words in CHANGES.get(verb, []):
                with self.subTest(words=" ".join(words)):
                    done = self.ration(*words, cwd=self.folder)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertTrue(done.stdout, "it says what it would do")
                    self.assertEqual(self.state(), before)
        self.assertIsNone(self.daemon.poll())

    def test_dry_run_is_refused_where_it_means_nothing(self):
        for words in [[verb] for verb in sorted(READS)] + ONLY_READ:
            with self.subTest(words=" ".join(words)):
                done = self.ration(*words, "--dry-run")
                self.assertEqual((done.returncode, done.stderr[:5]), (2, "E1001"), done.stderr)
                self.assertIn("--dry-run", done.stderr)


if __name__ == "__main__":
    unittest.main()
