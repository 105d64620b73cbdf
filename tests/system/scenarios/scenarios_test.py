#!/usr/bin/env python3
"""Every scenario of `ration demo`, played fast: what its name says really happens, seen from outside through the API."""
import datetime
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import waiting  # noqa: E402, F401

BIN = pathlib.Path(os.environ["BUILD_BIN"])
SCENARIOS = pathlib.Path(os.environ["SOURCE"]) / "share/ration/scenarios"
MIB, GIB = 1 << 20, 1 << 30
PATIENCE = 90  # seconds until a condition that is polled counts as never


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = pathlib.Path(folder.name)
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "CUDA_"))}
        # What stands in the environment for other runs has no part in it.
        self.environment = dict(own, XDG_RUNTIME_DIR=folder.name, HOME=folder.name, LC_ALL="C.UTF-8", RATION_LIMIT="1MiB", RATION_TENANT="nobody")
        self.demo = None
        self.limits = {}

    def start(self, scenario, *options):
        self.demo = subprocess.Popen([BIN / "ration", "demo", "--scenario", str(scenario), *options], env=self.environment, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=os.setpgrp)
        self.addCleanup(self.stop)
        text = ""
        while "token " not in text:
            line = self.demo.stdout.readline()
            self.assertTrue(line, text)
            text += line
        self.url = re.search(r"http://127\.0\.0\.1:\d+", text).group()
        self.token = re.search(r"token (\w+)", text).group(1)
        (self.folder,) = self.base.glob("ration-demo-*")
        return text

    def stop(self, how=signal.SIGTERM):
        if self.demo is None:
            return ""
        self.demo.send_signal(how)
        text = self.demo.communicate(timeout=PATIENCE)[0]
        code, self.demo = self.demo.returncode, None
        self.assertEqual(code, -how if how == signal.SIGKILL else 0, text)
        return text

    def get(self, path):
        request = urllib.request.Request(self.url + path, headers={"Authorization": "Bearer " + self.token})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)["data"]

    def rows(self):
        """Of this moment; along the way nobody may be beyond what it was ever allowed, nor the cards beyond what they have."""
        snapshot = self.get("/api/v1/snapshot")
        for device in snapshot["devices"]:
            self.assertLessEqual(device["used_bytes"], device["total_bytes"])
        # A program that took memory between the look into its book and that at the driver is without a workload for one look.
        rows = {row["workload"]: row for row in snapshot["workloads"] if row["workload"] is not None}
        for name, row in rows.items():
            self.limits[name] = max(self.limits.get(name, 0), row["configured_limit_bytes"])
            self.assertLessEqual(row["peak_bytes"], self.limits[name], row)
        return rows

    def events(self, *types):
        return self.get("/api/v1/events?limit=1000&type=" + ",".join(types))

    def until(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            rows = self.rows()
            found = condition(rows)
            if found:
                return found
            time.sleep(0.02)  # the processors are the programs' here
        self.fail(f"never: {what}\n" + "\n".join(event["text"] for event in self.get("/api/v1/events?limit=1000")))

    def finished(self, *names):
        """Each of them has ended well, and nobody broke a rule."""
        def ended(_):
            texts = {event["workload"]: event["text"] for event in self.events("ended")}
            return texts if set(names) <= set(texts) else None
        for name, text in self.until(ended, f"the ends of {names}").items():
            self.assertIn("ended with 0;", text, name)
        self.assertEqual(self.events("violation", "guard_lost"), [])

    def refused(self):
        return {event["workload"] for event in self.events("denied")}

    def ours(self):
        """Processes that live in this test's folder."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if str(self.base / "ration-demo-").encode() in (folder / "environ").read_bytes() and "Z" not in (folder / "stat").read_text().rsplit(")")[1].split()[0]:
                    found.append((folder / "cmdline").read_bytes())
            except OSError:
                pass
        return found


class Scenarios(Case):
    def test_serving_a_burst_is_refused_and_nobody_else_notices(self):
        self.start("serving", "--speed", "8", "--keep")
        self.finished("serve", "answers", "train")
        self.assertEqual(self.refused(), {"serve"})
        first = self.events("denied")[0]
        self.assertIn("of its limit 6.00 GiB", first["text"])
        for words in (["ps"], ["report"], ["report", "--last", "train"], ["events"], ["top", "--once"], ["trim", "--idle", "1h", "--dry-run"], ["recommend", "train"], ["dashboard"]):
            with self.subTest(verb=words):  # each joins the demo
                done = subprocess.run([BIN / "ration", *words, "--sim=demo"], env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_limits_that_move_to_and_fro_are_told_in_few_lines(self):
        self.start("demo", "--speed", "4", "--keep")
        self.until(lambda rows: self.events("suspended"), "the end of the story: the idle one is suspended")
        events = self.events()
        moved = [event for event in events if event["type"] == "rebalanced" and event["old"]]
        self.assertTrue(moved, "nobody's limit was moved")
        told = {}
        for event in moved:
            now, before = re.search(r"may hold (.*?) instead of (.*?)(?:: | \(|$)", event["text"]).groups()
            self.assertNotEqual(now, before, "no change")
            self.assertGreaterEqual(event["count"], 1)
            self.assertLessEqual(event["first_time"], event["time"])
            told.setdefault(event["workload"], []).append(event)
        self.assertTrue(any(event["count"] > 1 for event in moved), "no burst came as one")
        seconds = lambda text: datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
        for name, own in told.items():  # one for each burst, which ends with five quiet seconds, or with what came of it
            others = [event for event in events if event["workload"] == name and event["type"] != "rebalanced"]
            self.assertLessEqual(len(own), len(others) + 1 + (seconds(own[-1]["time"]) - seconds(own[0]["first_time"])) / 5, name)
        self.assertEqual([event["text"] for event in events if "about 0s" in event["text"] or "about 0.0s" in event["text"]], [])

    def test_gan_limits_follow_whose_turn_it_is(self):
        self.start("gan", "--speed", "8", "--keep")
        self.finished("generator", "discriminator")
        self.assertEqual(self.refused(), set(), "who waits is not refused")
        changes = [(event["workload"], int(event["new"]) // GIB) for event in self.events("resized")]
        self.assertEqual(changes, ([("generator", 5), ("discriminator", 11), ("discriminator", 5), ("generator", 11)] * 3)[:len(changes)])
        self.assertGreaterEqual(len(changes), 6, "each had its turn")

    def test_fragmentation_who_keeps_regions_is_refused(self):
        self.start("fragmentation", "--speed", "8", "--keep")
        self.finished("regions", "blocks")
        self.assertEqual(self.refused(), {"regions"})
        self.assertTrue(all(event["bytes"] >= 2 * GIB for event in self.events("denied")), "never by a small block")
        said = (self.folder / "regions.log").read_text()
        self.assertRegex(said, r"denied 2\.00 GiB: 7\.\d+ GiB held \(4\.\d+ GiB of it free, in pieces\)")

    def test_noisy_neighbour_guarantees_are_there(self):
        self.start("noisy-neighbour", "--speed", "8", "--keep")
        self.until(lambda rows: self.refused() or None, "a refusal")
        self.finished("steady", "late", "greedy")
        self.assertEqual(self.refused(), {"greedy"})
        greedy = [event for event in self.events("denied") if event["workload"] == "greedy"]
        self.assertTrue(greedy)
        ended = {event["workload"]: event["text"] for event in self.events("ended")}
        peak = float(re.search(r"its peak was ([\d.]+) GiB", ended["greedy"]).group(1))
        self.assertLessEqual(peak, 16 - 4 - 3)
        self.assertGreater(peak, 8)

    def test_jupyterhub_twelve_on_a_card_for_four(self):
        self.start("jupyterhub", "--speed", "2", "--keep")
        twelve = {f"notebook-{number:02}" for number in range(1, 13)}
        # Twelve with 3.5 GiB each on 16 GiB: who is suspended has its bytes in host memory.
        self.until(lambda rows: set(rows) == twelve and sum(row["used_bytes"] + row["suspended_bytes"] for row in rows.values()) > 12 * 3 * GIB, "all twelve hold their memory")
        self.until(lambda rows: {event["workload"] for event in self.events("suspended")} == twelve, "each was suspended")
        self.until(lambda rows: len({event["workload"] for event in self.events("resumed")}) >= 6, "they come back")
        self.assertEqual((self.refused(), self.events("violation", "guard_lost")), (set(), []))

    def test_demo_shows_what_it_announces(self):
        text = self.start("demo", "--speed", "10", "--keep")
        self.assertIn("ration demo: 2 simulated NVIDIA A100-SXM4-40GB", text)
        self.assertIn("4 tenants", text)
        self.until(lambda rows: [event for event in self.events("denied") if event["workload"] == "serve"], "serve is refused")
        change = self.until(lambda rows: [event for event in self.events("resized") if event["workload"] == "train"], "train's guarantee")[0]
        self.assertIn("train", change["text"])
        self.until(lambda rows: self.events("rebalanced"), "limits that give way")
        self.until(lambda rows: rows["train"]["guarantee_bytes"] == 14 * GIB and rows["sweep"]["limit_bytes"] < rows["sweep"]["configured_limit_bytes"],
                   "the sweep is held back")
        # From another terminal.
        outside = dict(self.environment)
        outside.pop("RATION_LIMIT"), outside.pop("RATION_TENANT")
        done = subprocess.run([BIN / "ration", "set", "eval", "--limit", "5GiB", "--sim=demo"], env=outside, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.until(lambda rows: rows["eval"]["configured_limit_bytes"] == 5 * GIB, "the changed limit")
        self.assertIn("DENIED", self.stop())


class Running(Case):
    def test_nothing_is_left_behind(self):
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(how=how):
                self.start("serving", "--keep")
                self.until(lambda rows: len(rows) == 3 and all(row["processes"] for row in rows.values()), "three programs")
                self.assertGreaterEqual(len(self.ours()), 7)
                self.stop(how)
                deadline = time.monotonic() + PATIENCE
                while (self.ours() or list(self.base.glob("ration-demo-*"))) and time.monotonic() < deadline:
                    time.sleep(0.02)
                self.assertEqual((self.ours(), list(self.base.glob("ration-demo-*"))), ([], []))

    def test_nothing_is_left_behind_where_the_sweeper_was_killed(self):
        self.start("serving", "--keep")
        self.until(lambda rows: len(rows) == 3 and all(row["processes"] for row in rows.values()), "three programs")
        (sweeper,) = (pid for pid in map(int, subprocess.run(["pgrep", "-P", str(self.demo.pid)], capture_output=True, text=True).stdout.split()) if os.getpgid(pid) == pid)
        os.kill(sweeper, signal.SIGKILL)
        self.stop()
        self.assertEqual((self.ours(), list(self.base.glob("ration-demo-*"))), ([], []))

    def test_it_ends_by_itself_when_told_so_and_shows_who_holds_what(self):
        done = subprocess.run([BIN / "ration", "demo", "--scenario", "serving", "--speed", "8", "--for", "2s"], env=self.environment, capture_output=True,
                              text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("$ ration ps", done.stdout)
        self.assertIn("$ ration why d-", done.stdout)
        self.assertNotIn("\033", done.stdout)
        self.assertEqual(list(self.base.glob("ration-demo-*")), [])

    def test_completion_joins_the_demo_that_the_line_names(self):
        self.start("serving", "--keep")
        rows = self.until(lambda rows: len(rows) == 3 and rows, "three programs")
        done = subprocess.run([BIN / "ration", "candidates", "--", "set", "--sim=demo", ""], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.stdout.split(), sorted(rows), done.stderr)

    def test_two_at_once_have_a_port_each(self):
        first = self.start("serving", "--keep")
        second = subprocess.run([BIN / "ration", "demo", "--scenario", "fragmentation", "--for", "1s"], env=self.environment, capture_output=True, text=True,
                                timeout=PATIENCE)
        self.assertEqual(second.returncode, 0, second.stdout + second.stderr)
        self.assertNotEqual(re.search(r"http://\S+", first).group(), re.search(r"http://\S+", second.stdout).group())

    def test_each_of_two_prints_commands_that_reach_itself(self):
        def outside(*words):
            return subprocess.run([BIN / "ration", *words], env=self.environment, capture_output=True, text=True, timeout=PATIENCE)

        self.start("serving", "--keep")
        while "try: " not in (line := self.demo.stdout.readline()):
            self.assertTrue(line, "what to try is printed")
        try_first = line.split("ration ")[1].split()
        self.until(lambda rows: "serve" in rows, "somebody runs")
        alone = outside("ps", "--sim=demo")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        second = subprocess.Popen([BIN / "ration", "demo", "--scenario", "fragmentation", "--keep"], env=self.environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=os.setpgrp)
        self.addCleanup(lambda: (second.terminate(), second.communicate(timeout=PATIENCE)))
        while "token " not in (line := second.stdout.readline()):
            self.assertTrue(line, "the second one starts")
        self.assertEqual(try_first[-1], f"--sim=demo:{self.demo.pid}")
        done = outside(*try_first)
        self.assertEqual(done.returncode, 0, done.stderr)
        which = outside("ps", "--sim=demo")
        self.assertEqual((which.returncode, which.stderr.split()[0]), (3, "E1445"))
        for pid, scenario in ((self.demo.pid, "serving"), (second.pid, "fragmentation")):
            self.assertIn(f"demo:{pid} ({scenario})", which.stderr)
            self.assertEqual(outside("ps", f"--sim=demo:{pid}").returncode, 0)
        self.assertIn("E1444", outside("ps", "--sim=demo:1").stderr)

    def test_without_a_demo_that_is_said(self):
        done = subprocess.run([BIN / "ration", "ps", "--sim=demo"], env=self.environment, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.split()[0]), (3, "E1444"))


class Terminal(Case):
    """What is typed while a scenario plays is for the shell that started it."""

    def played(self, *words):
        """At a terminal where somebody types ahead: what is left for the next one who reads."""
        tools = self.base / "bin"
        tools.mkdir()
        # Another name, so that what stands beside it as `ration` is what the demo starts.
        shutil.copy(BIN / "ration", tools / "player")
        (tools / "ration").write_text(f'#!/bin/sh\nreadlink /proc/$$/fd/0 >> {self.base}/inputs\nexec {BIN}/ration "$@"\n')
        (tools / "ration").chmod(0o755)
        terminal, own = pty.openpty()
        os.write(terminal, b"typed ahead\nand more\n" * 20)
        done = subprocess.run(["sh", "-c", f'{tools}/player demo {" ".join(words)} > {self.base}/said 2>&1; read -r line; echo "$line" > {self.base}/left'],
                              env=self.environment, stdin=own, start_new_session=True, timeout=PATIENCE)
        os.close(own), os.close(terminal)
        self.assertEqual(done.returncode, 0, (self.base / "said").read_text())
        return (self.base / "left").read_text()

    def test_nothing_that_a_scenario_starts_has_the_terminal(self):
        scenario = self.base / "short.toml"
        scenario.write_text("""[scenario]
about = "one program, and commands"
node = "T4:16GiB"
length = "1s"
[[program]]
name = "train"
steps = ["1GiB:10s"]
[[command]]
at = "500ms"
ration = ["ps", "set train --limit 4GiB"]
""")
        self.assertEqual(self.played("--scenario", str(scenario), "--for", "1s"), "typed ahead\n", (self.base / "said").read_text())
        inputs = (self.base / "inputs").read_text().split()
        self.assertGreaterEqual(len(inputs), 5, "the daemon, the program, two commands, and ps in the end")
        self.assertEqual(set(inputs), {"/dev/null"})

    def test_nor_has_a_scenario_that_is_a_program(self):
        program = self.base / "share/ration/scenarios/asks"
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/sh\nread -r line\necho "read: $line"\n')
        program.chmod(0o755)
        self.assertEqual(self.played("--scenario", "asks"), "typed ahead\n")
        self.assertEqual((self.base / "said").read_text(), "read: \n")


class Files(Case):
    def refused_at(self, change, place, text):
        good = (SCENARIOS / "serving.toml").read_text()
        bad = self.base / "bad.toml"
        bad.write_text(change(good))
        self.assertNotEqual(bad.read_text(), good)
        done = subprocess.run([BIN / "ration", "demo", "--scenario", bad, "--for", "1s"], env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        line = 1 + bad.read_text()[:bad.read_text().index(place)].count("\n")
        self.assertIn(f"E1441 ration: {bad}:{line}:", done.stderr)
        self.assertIn(text, done.stderr)

    def test_what_is_wrong_is_told_with_its_line(self):
        self.refused_at(lambda text: text.replace("about =", "abuot ="), "abuot", "Did you mean 'about'?")
        self.refused_at(lambda text: text.replace('sample = "200ms"', 'sample = "often"'), 'sample = "often"', "often")
        self.refused_at(lambda text: text.replace('guarantee = "7GiB"', "guarantee = 7"), "guarantee = 7", "guarantee")
        self.refused_at(lambda text: text.replace('limit = "6GiB"', 'limit = "6"'), 'limit = "6"', "6")
        self.refused_at(lambda text: text + "\n[[tenannt]]\nname = 'x'\n", "[[tenannt]]", "tenant")
        self.refused_at(lambda text: text + "\n[[command]]\nat = '3s'\nration = ['run rm']\n", "[[command]]", "set")

    def test_a_scenario_of_that_name_is_not_there(self):
        done = subprocess.run([BIN / "ration", "demo", "--scenario", "servin"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("Did you mean 'serving'?", done.stderr)


if __name__ == "__main__":
    unittest.main()
