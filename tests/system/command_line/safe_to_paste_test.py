#!/usr/bin/env python3
"""What the command line prints is true and safe to paste: --dry-run changes nothing, a printed command is about the same node, a suggested
fix fixes."""
import hashlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "node"))
from node_case import Case, NODE  # noqa: E402
from node_client import BIN, UnixConnection  # noqa: E402

# What each verb that changes something would do. A verb that is in neither table fails the test.
CHANGES = {
    "run": [["run", NODE, "--limit", "1GiB", "--dry-run", "--", "touch", "started"]],
    "inject": [["inject", NODE, "docker", "--limit", "1GiB", "--dry-run", "--", "run", "IMAGE"],
               ["inject", NODE, "compose", "--limit", "1GiB", "--service", "web", "--dry-run", "--", "-f", "compose.yaml", "up"],
               ["inject", NODE, "bwrap", "--limit", "1GiB", "--dry-run", "--", "--bind", "/", "/", "--", "true"]],
    "jupyter": [["jupyter", "install", "--limit", "1GiB", "--dry-run"], ["jupyter", "uninstall", "ration-1gib", "--dry-run"]],
    "split": [["split", NODE, "0", "--into", "2", "--dry-run"], ["split", NODE, "0", "--off", "--dry-run"]],
    "set": [["set", "held", "--limit", "4GiB", "--dry-run"], ["set", "held", "--guarantee", "1GiB", "--dry-run"],
            ["set", "--schedule", "night=22:00-07:00:held=50%", "--dry-run"]],
    "serve": [["serve", NODE, "--listen", "", "--dry-run"]],
    "service": [["service", action, "--user", "--dry-run"] for action in ("install", "uninstall", "start", "stop", "restart")] +
               [["service", "install", "--user", "--now", "--dry-run"]],
    "stop": [["stop", "held", "--dry-run"], ["stop", "held", "--yes", "--dry-run"]],
    "trim": [["trim", "held", "--dry-run"], ["trim", "--idle", "0s", "--dry-run"]],
    "suspend": [["suspend", "held", "--dry-run"]],
    "resume": [["resume", "held", "--dry-run"]],
    "report": [["report", "close", "2026-01", "--dry-run"]],
    "config": [["config", "init", "fresh.toml", "--dry-run"], ["config", "init", "old.toml", "--force", "--dry-run"],
               ["config", "reload", "--dry-run"]],
    "record": [["record", NODE, "-o", "fresh.rec", "--dry-run", "--", "true"]],
    "demo": [["demo", "--for", "1s", "--dry-run"]],
}
READS = {"ps", "top", "dashboard", "explain", "why", "export", "import", "inspect", "whatif", "fits", "doctor", "events", "recommend", "env", "snippet", "sim", "help", "docs", "completion", "version"}
ONLY_READ = [["service", "status"], ["service", "print"], ["config", "print"], ["config", "path"], ["config", "validate"], ["report"]]


class Denied(Case):
    def denied(self, name, limit, asked, *options):
        """A workload that is denied `asked` beside what it holds, and tries again each tenth of a second."""
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--name", name, "--limit", limit, *options, "--", BIN / "ration-workload", "steps",
                                    "1GiB:300ms", f"{asked}:300ms", "--repeat", "--block", "256MiB", "--refused", "go-on"],
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        return self.until(lambda: [event for event in self.events("denied") if event["workload"] == name], "a denial of " + name)[-1]

    def fix_of(self, denial):
        done = self.ration("why", NODE, denial)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search(r"^fix      (.*)$", done.stdout, re.M).group(1)

    def pasted(self, line):
        """As a shell takes it, in a terminal that knows nothing of this one's node."""
        command = line.split("   ")[0].replace("ration ", f"{BIN}/ration ", 1)
        elsewhere = {key: value for key, value in self.environment.items() if not key.startswith("RATION_")}
        done = subprocess.run(["sh", "-c", command], env=elsewhere, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, command + done.stderr)

    def pasted_helps(self, fix):
        before = self.row("eager")["limit_bytes"]
        self.pasted(fix)
        self.until(lambda: self.row("eager")["used_bytes"] > before, "more than it was denied at")


class SafeToPaste(Denied):
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

    # ------------------------------------------------------------------------------------------------------ what to type

    def test_every_printed_command_is_about_the_same_node(self):
        self.denied("eager", "2GiB", "3GiB")
        sim, socket = "--sim=T4:16GiB:context=64MiB", f"--socket={self.folder}/ration.sock"
        takes = re.compile(r"(?<!')\bration (set|why|ps|run|explain|trim|events|split|fits|plan|doctor|serve)\b([^\n]*)")
        number = self.events("denied")[-1]["id"]
        printed = 0
        for words in (["ps"], ["why", number], ["events"], ["set", "nobody", "--limit", "1GiB"], ["set", "eager"], ["explain", "nobody"], ["fits", "99GiB"],
                      ["split"], ["split", "0", "--into", "2"], ["why", "d-99-1"], ["trim", "nobody"], ["events", "--type", "denid"], ["doctor"],
                      ["run", "--limit", "1GiB", "--gpu", "7", "--", "true"], ["run", "--guarantee", "15.99GiB", "--", "true"], ["why", number, "-o", "json"],
                      ["run", "--", "./missing.py"], ["set", "--schedule"], ["report", "--last", "eager"], ["recommend", "eager"]):
            with self.subTest(words=words):
                done = self.ration(words[0], *([] if words[0] == "report" else []), sim, socket, *words[1:])
                for verb, rest in takes.findall(done.stdout + done.stderr):
                    printed += 1
                    self.assertIn(sim, f"{verb}{rest}", done.stdout + done.stderr)
                    self.assertTrue(verb == "whatif" or socket in rest, done.stdout + done.stderr)
        self.assertGreater(printed, 12)

    def test_every_face_of_the_daemon_prints_commands_about_itself(self):
        event = self.denied("eager", "2GiB", "3GiB")
        here = f"--sim=T4:16GiB:context=64MiB --socket={self.folder}/ration.sock"
        told = [self.get(path) for path in (f"/api/v1/denials/{event['denial']}", f"/api/v1/events/{event['id']}", f"/api/v1/events/{event['id']}/why")]
        stream = UnixConnection(self.folder / "ration.sock")
        self.addCleanup(stream.close)
        stream.request("GET", "/api/v1/stream?topics=events&last_event_id=1", headers={"Accept": "text/event-stream"})
        lines = (line.decode() for line in stream.getresponse())
        told.append(next(one for line in lines if line.startswith("data: ") for one in [json.loads(line[6:])] if one.get("denial")))
        for one in told:
            self.assertIn(here, one["fix"], one)
            self.assertIn(here, one.get("why", one)["fix"], one)
        self.assertEqual(self.ask("GET", "/api/v1/workloads/nobody/explain")[1]["fix"], f"ration ps {here}")
        self.assertEqual(self.get("/api/v1/session")["command_options"]["set"], here.split(" "))
        self.assertEqual(self.get("/api/v1/session")["command_options"]["whatif"], here.split(" ")[:1])

    def test_a_fix_fixes(self):
        event = self.denied("eager", "2GiB", "3GiB")
        # Until the daemon has looked at the newest denials, the books are what tells, which name no socket.
        fix = self.until(lambda: (found := self.fix_of(event["denial"])) and "--socket" in found and found, "the daemon's own words")
        self.assertRegex(fix, rf"^ration set --sim=T4:16GiB:context=64MiB --socket={self.folder}/ration.sock eager --limit [\d.]+GiB$")
        self.pasted_helps(fix)

    def test_where_no_limit_would_do_the_promise_is_named_and_lowering_it_does(self):
        self.holding("promised", "1GiB", "--guarantee", "13GiB")
        event = self.denied("eager", "14GiB", "4GiB")
        fix = self.until(lambda: (found := self.fix_of(event["denial"])) and "promised is promised" in found and found, "who holds it")
        self.assertRegex(fix, r"^ration set --sim=\S+ --socket=\S+ promised --guarantee [\d.]+GiB   \(no limit would allow more")
        before = self.row("eager")["limit_bytes"]
        self.assertLess(before, 14 << 30, "what is in force")
        self.pasted(fix)
        self.until(lambda: self.row("eager")["used_bytes"] > before, "more than it was denied at")

    # -------------------------------------------------------------------------------------------------- what can be typed

    def completed(self, *words):
        """What bash offers for the last word."""
        script = self.ration("completion", "bash").stdout
        line = " ".join(f"'{word}'" for word in words)
        before = words[-2]
        call = (f"{script}\nCOMP_WORDS=('{BIN}/ration' {line}); COMP_CWORD={len(words)}; "
                f"_ration ration '{words[-1]}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        done = subprocess.run(["bash", "-c", call], env=self.environment, capture_output=True, text=True, cwd=self.folder / "tools")
        self.assertEqual(done.stderr, "")
        return [word for word in done.stdout.split("\n") if word]

    def test_completion_offers_what_there_is(self):
        self.holding("held", "1GiB", "--tenant", "held")
        self.row("held")
        for verb in ("set", "trim", "why", "stop", "ps", "explain", "suspend", "resume", "recommend"):
            with self.subTest(verb=verb):
                self.assertEqual(self.completed(verb, ""), ["held"])
        self.assertEqual(self.completed("set", "he"), ["held"])
        self.assertEqual(self.completed("ps", "--gpu", ""), ["0"])
        self.assertEqual(self.ration("split", NODE, "0", "--sizes", "2GiB,3GiB", "--names", "a$b,c").returncode, 0)
        self.assertEqual(self.completed("run", "--slice", ""), ["a\\$b", "c"])
        self.assertIn("jupyterhub", self.completed("demo", "--scenario", ""))
        self.assertEqual(self.completed("help", "guar"), ["guarantee"])
        self.assertEqual(self.completed("service", "st"), ["start", "status", "stop"])
        self.assertIn("--limit", self.completed("set", "held", "--li"))
        self.assertEqual(self.completed("run", "--", "systemct")[:1], ["systemctl"])
        for words in (("set", ""), ("config", "validate", ""), ("fits", "")):
            self.assertFalse({"if", "then", "else"} & set(self.completed(*words)), words)

    def test_what_a_file_says_reaches_no_terminal_as_it_is(self):
        bad = self.folder / "bad.toml"
        bad.write_text('[[tenant]]\nname = "a\\u001b[2Jb"\n[defaults]\n"li\\u001b]0;x\\u0007mit" = 1\n')
        for words in (["config", "validate", bad], ["config", "validate"], ["config", "print"], ["serve", NODE, "--dry-run"]):
            with self.subTest(words=words[:2]):
                done = self.ration(*words, env={"RATION_CONFIG": str(bad)})
                self.assertNotIn("\033", done.stdout + done.stderr)
                self.assertNotIn("\007", done.stdout + done.stderr)

    def test_a_misspelt_option_or_size_is_what_is_said(self):
        done = self.ration("run", "--limt", "4GiB", "--", "true")
        self.assertIn("Did you mean '--limit'?", done.stderr)
        self.assertNotIn("no '--'", done.stderr)
        for words, error in ((["run", "--limit", "4096", "--", "true"], "E1101"), (["fits", "5 gigs"], "E1102"), (["set", "x", "--limit", "0.5"], "E1103"),
                             (["run", "--guarantee", "4gb2", "--", "true"], "E1102")):
            with self.subTest(words=words):  # without --sim: this machine has no GPU
                done = self.ration(*words, env={"RATION_SIM": ""})
                self.assertEqual((done.returncode, done.stderr[:5]), (2, error), done.stderr)

    def test_the_variables_do_what_help_says(self):
        done = self.ration("fits", "99GiB", env={"RATION_SIM": "T4:8GiB"})
        self.assertIn("--sim=T4:8GiB", done.stderr)
        self.assertIn("with 8.00 GiB", done.stderr)
        done = self.ration("ps", env={"RATION_SOCKET": str(self.folder / "nowhere")})
        self.assertEqual((done.returncode, done.stderr[:5]), (3, "E1501"), done.stderr)

    def test_small_things_that_are_expected(self):
        held = self.holding("held", "1GiB")
        self.holding("other", "2GiB")
        self.row("other")
        self.assertRegex(self.ration("version").stdout, r"^ration \d")
        self.assertNotIn("other  ", self.ration("ps", "held").stdout.split("WORKLOAD")[1])
        self.assertEqual(self.ration("ps", "nobody").returncode, 3)
        rows = [json.loads(line) for line in self.ration("ps", "-o", "jsonl", "--sort=-used").stdout.splitlines()]
        self.assertEqual([row["workload"] for row in rows], ["other", "held"])
        self.assertEqual(self.ration("ps", "--sort", "colour").returncode, 2)
        by_what_is_not_shown = self.ration("ps", "-o", "csv", "--sort=-run").stdout.splitlines()
        self.assertEqual([line.split(",")[0].split("/")[1] for line in by_what_is_not_shown[1:]], ["other", "held"])
        self.assertEqual(self.ration("set", "held", "-l", "4GiB").returncode, 0)
        for step, limit in (("+1GiB", 5), ("-2GiB", 3)):
            self.assertEqual(self.ration("set", "held", f"--limit={step}", "--yes").returncode, 0)
            self.until(lambda: self.row("held")["limit_bytes"] == limit << 30, step)
        self.assertIn("resized", self.ration("events", "--since", "10m").stdout)
        self.assertEqual(self.ration("events", "--since", "0s").stdout, "")
        done = self.ration("stop", "held", stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stderr[:5]), (4, "E1205"))
        self.assertIsNone(held.poll())
        done = self.ration("stop", "held", "--yes", "-o", "json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["data"]["state"]), (0, "ended"), done.stderr)
        held.wait(60)
        self.assertEqual(self.ration("stop", "held", "--yes").returncode, 3)

    def test_ps_again_and_again(self):
        self.holding("held", "1GiB")
        self.holding("other", "2GiB")
        self.row("other")
        for words in (["-w", "--sort=-used"], ["--watch", "10ms", "--sort=-used"]):
            with self.subTest(words=words):
                watching = subprocess.Popen([BIN / "ration", "ps", *words], env=self.environment, stdout=subprocess.PIPE, text=True)
                self.addCleanup(lambda process=watching: (process.kill(), process.communicate()))
                seen = []
                while seen.count("WORKLOAD") < 3:
                    seen.append(watching.stdout.readline().split(" ")[0].strip().split("/")[-1])
                self.assertEqual([name for name in seen if name in ("held", "other")], ["other", "held"] * 2)
                watching.send_signal(signal.SIGINT)
                watching.communicate(timeout=60)

    def test_stop_ends_who_does_not_listen(self):
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "deaf", "--", "sh", "-c",
                                    f"trap '' TERM; {BIN}/ration-workload hold 1GiB & wait; exec sleep 1000"],
                                   env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        self.until(lambda: "holding" in process.stdout.readline(), "it holds")
        done = self.ration("stop", "deaf", "--yes", "--grace", "100ms")
        self.assertIn("killed", done.stdout, done.stderr)
        self.until(lambda: "deaf" not in self.rows(), "its end")
        self.assertNotEqual(process.wait(60), 0)

    def test_why_without_a_number(self):
        self.assertEqual(self.ration("why").returncode, 3)
        event = self.denied("eager", "2GiB", "3GiB")
        for words in ((), ("eager",), (f"{event['tenant']}/eager",)):
            self.assertRegex(self.ration("why", *words).stdout, r"^DENIED .*/eager ")
        self.assertIn(event["denial"].split("-")[1], self.ration("why", "-o", "json").stdout)


class Obstacles(Denied):
    """Somebody is promised memory, but it is something else that stands in the way."""
    configuration = """
[[tenant]]
name = "small"
limit = "4GiB"
[[tenant]]
name = "kept"
guarantee = "6GiB"
limit = "8GiB"
[[policy]]
match = { label = { class = "ruled" } }
limit = "2GiB"
"""

    def test_behind_its_tenants_limit_that_is_named_and_raising_it_does(self):
        event = self.denied("eager", "8GiB", "4GiB", "--tenant", "small")
        fix = self.fix_of(event["denial"])
        self.assertRegex(fix, r"^ration set --sim=\S+ --socket=\S+ small --limit [\d.]+GiB   \(no limit would allow .*: tenant small has a limit of 4\.00 GiB\)$")
        self.pasted_helps(fix)

    def test_behind_a_policy_that_is_named(self):
        event = self.denied("eager", "8GiB", "4GiB", "--label", "class=ruled")
        fix = self.fix_of(event["denial"])
        self.assertRegex(fix, r"^ration config --sim=\S+ --socket=\S+ reload   once root has raised this limit; or ask for less \(no limit would allow .*: the policy at \S+ sets 2\.00 GiB\)$")
        self.pasted(fix)


class Ended(Denied):
    node = "--sim=T4:16GiB:context=64MiB*2"

    def test_the_run_that_is_suggested_is_on_the_same_gpus(self):
        self.ration("run", self.node, "--name", "late", "--gpu", "1", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
        denial = self.until(lambda: self.events("denied"), "its denial")[-1]["denial"]
        self.stop()
        done = self.ration("why", self.node, denial)
        self.assertRegex(done.stdout, r"(?m)^fix      ration run --sim=\S+ --name late --gpu 1 --limit [\d.]+GiB -- \S+ hold 2GiB$", done.stderr)


if __name__ == "__main__":
    unittest.main()
