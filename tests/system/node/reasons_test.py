#!/usr/bin/env python3
"""Why something happened, what stands in the way of it, and what is kept for whom; through the installed program."""
import getpass
import json
import os
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node.node_case import NODE, Case  # noqa: E402
from node_client import BIN, GIB, MIB, UnixConnection  # noqa: E402


class Reasons(Case):
    configuration = """
[[policy]]
match = { users = ["*"] }
idle = { after = "1s", action = "suspend" }
"""

    def why(self, number):
        done = self.ration("why", number)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def event(self, kind):
        return self.until(lambda: self.events(kind), f"an event {kind}")[-1]

    def test_a_suspension_is_explained_by_what_led_to_it(self):
        self.holding("notebook", "1GiB", "--limit", "2GiB")
        text = self.why(self.event("suspended")["id"])
        self.assertRegex(text, r"(?m)^SUSPENDED .*\nbecause  .*is suspended: its 1\.06 GiB are in host memory")
        self.assertRegex(text, r"(?m)^before   .* idle: .*notebook: ")

    def test_a_resize_a_denial_and_what_never_was(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.row("train")
        self.ration("set", "train", "--limit", "3GiB")
        resized = self.event("resized")["id"]
        self.assertRegex(self.why(resized), r"because  .*limit 2\.00 GiB → 3\.00 GiB on GPU 0, by ")
        self.assertEqual(self.ration("set", "train", "--limit", "3GiB").returncode, 0)
        self.assertEqual(self.event("resized")["id"], resized, "nothing was changed")
        self.ration("set", "train", "--limit", "4GiB")
        self.assertRegex(self.why(f"e-{self.event('resized')['id']}"), rf"before   \S+  {resized} resized: ")
        answer = json.loads(self.ration("why", resized, "-o", "json").stdout)
        self.assertEqual((answer["schema"], answer["data"]["type"]), ("ration.event_why/1", "resized"))
        self.ration("run", NODE, "--name", "greedy", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
        denied = self.event("denied")
        self.assertEqual(self.why(denied["id"]), self.why(denied["denial"]), "one event, one explanation")
        self.assertIn("E1917", self.ration("why", "999999").stderr)
        self.assertIn("E1413", self.ration("why", "yesterday").stderr)

    def test_a_wait_that_ended_well_is_told(self):
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "patient", "--limit", "2GiB", "--on-deny", "wait", "--",
                                    "sh", "-c", f"{BIN}/ration-workload hold 1GiB & exec {BIN}/ration-workload hold 1500MiB"],
                                   env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(lambda: (os.killpg(process.pid, signal.SIGKILL), process.wait()))
        self.until(lambda: self.rows().get("patient", {}).get("state") == "waiting", "one of the two waits for the other")
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 2, "it is a wait that somebody would notice")
        self.ration("set", "patient", "--limit", "4GiB")
        event = self.event("waited")
        self.assertRegex(event["text"], r"patient waited about .* for 1\.\d\d GiB and got it")
        self.assertIsNone(event["denial"])
        self.assertRegex(self.why(event["id"]), "before   .*resized: ")

    def test_a_denial_is_counted_by_its_reason_whatever_its_fix_says(self):
        # More than any device has: the fix is not a limit, and what denied it was its own limit all the same.
        self.ration("run", NODE, "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "40GiB")
        denied = self.event("denied")
        self.assertNotIn("ration set", denied["fix"])
        self.assertEqual(denied["why"]["reason"], "limit")
        connection = UnixConnection(self.folder / "ration.sock")
        self.addCleanup(connection.close)
        connection.request("GET", "/metrics")
        counted = re.findall(r'(?m)^ration_denied_total\{.*reason="(\w+)"\} (\d+)', connection.getresponse().read().decode())
        self.assertEqual(counted, [("limit", "1")])

    def test_who_dies_waiting_got_nothing(self):
        go, pid = self.folder / "go", self.folder / "pid"
        os.mkfifo(go)
        program = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "patient", "--limit", "2GiB", "--on-deny", "wait", "--", "sh", "-c",
                                    f"(read line < {go}; exec {BIN}/ration-workload hold 1500MiB) & echo $! > {pid}; exec {BIN}/ration-workload obey"],
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(lambda: (program.terminate(), program.communicate()))

        def take(mib):
            program.stdin.write(f"take {mib}\n")
            program.stdin.flush()
            self.assertEqual(program.stdout.readline(), "0\n")
        take(1024)
        go.write_text("go\n")
        self.until(lambda: self.rows().get("patient", {}).get("state") == "waiting", "one of the two waits for the other")
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 2, "it is a wait that somebody would notice")
        take(256)  # by the other one, meanwhile
        os.kill(int(pid.read_text()), signal.SIGKILL)
        take(672)  # fits when the dead one's context has been returned
        self.until(lambda: self.rows()["patient"]["state"] == "running", "nobody waits any more")
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 1, "a look at it")
        self.assertEqual(self.events("waited"), [])

    def test_what_stands_in_the_way_of_shrinking_is_told_until_it_is_gone(self):
        program = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "train", "--limit", "4GiB", "--label", "class=x", "--",
                                    BIN / "ration-workload", "obey"],
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (program.terminate(), program.communicate()))
        program.stdin.write("take 2048\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), "0\n")
        self.row("train")
        refused = self.ration("set", "train", "--limit", "1GiB")
        self.assertEqual((refused.returncode, "E1205" in refused.stderr), (4, True), refused.stderr)
        self.assertEqual(self.ration("set", "train", "--limit", "1GiB", "--yes").returncode, 0)
        event = self.event("shrinking")
        self.assertEqual(event["bytes"], 1024 * MIB + 64 * MIB)
        self.assertRegex(event["text"], r"train holds 2\.06 GiB, 1\.06 GiB more than its limit 1\.00 GiB, and gets no more memory until .* 64\.0 MiB in contexts")
        self.ration("set", "train", "--limit", "4GiB")
        self.until(lambda: "is under its limit again" in self.events("shrinking")[-1]["text"], "it is told")

    def test_a_book_that_goes_up_and_down_fills_no_log(self):
        self.holding("sly", "1GiB", "--limit", "2GiB")
        self.row("sly")
        for turn in range(12):
            self.forge_held("sly", (3 if turn % 2 == 0 else 1) * GIB)
            looks = self.get("/api/v1/health")["looks"]
            self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 1, "a look at it")
        self.assertEqual(len(self.events("shrinking")), 2, "over, and under again")


class BetweenTwoLooks(Case):
    pace = "1m"

    def test_a_denial_is_explained_as_soon_as_the_run_is_over(self):
        for name in ("first", "second", "third"):
            self.ration("run", NODE, "--name", name, "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
            self.assertRegex(self.ration("why").stdout, f"(?m)^DENIED .*/{name} ")
            self.ration("run", NODE, "--name", name + "-again", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
            self.assertRegex(self.ration("why", name + "-again").stdout, f"(?m)^DENIED .*/{name}-again ")
        self.assertIn("third-again", self.ration("events").stdout)

    def test_the_daemon_looks_before_it_says_what_was_denied(self):
        self.ration("run", NODE, "--name", "late", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
        self.assertEqual([event["workload"] for event in self.events("denied")], ["late"])


class OwnTenant(Case):
    configuration = f"""
[[tenant]]
name = "mine"
guarantee = "6GiB"
match.users = ["{getpass.getuser()}"]
[[tenant]]
name = "others"
guarantee = "8GiB"
"""

    def test_a_size_fits_if_the_callers_tenant_is_guaranteed_it(self):
        done = self.ration("fits", "8GiB", NODE, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({name: json.loads(done.stdout)["data"][name] for name in ("tenant", "available_bytes")}, {"tenant": "mine", "available_bytes": 8 * GIB})
        self.assertEqual(self.ration("fits", "10GiB", NODE, "--tenant", "others").returncode, 0)
        self.assertEqual(self.ration("fits", "11GiB", NODE, "--tenant", "others").returncode, 4)


class Promises(Case):
    configuration = """
[[device]]
match = "0"
keep_free = "1GiB"
slices = ["1GiB", "2GiB"]
[[tenant]]
name = "nlp"
guarantee = "6GiB"
limit = "12GiB"
[[tenant]]
name = "vision"
limit = "14GiB"
"""

    def test_what_is_kept_counts_wherever_something_is_promised(self):
        device = self.until(lambda: [each for each in self.get("/api/v1/devices") if each["promised_bytes"] > 6 * GIB], "the device, cut")[0]
        self.assertEqual((device["promised_bytes"], device["keep_free_bytes"], device["available_bytes"]), (9 * GIB, GIB, 6 * GIB), "16 without 1 kept free, 3 sliced, 6 of nlp")
        self.assertEqual(self.ration("fits", "6GiB", NODE).returncode, 0)
        self.assertEqual(self.ration("fits", "7GiB", NODE).returncode, 4)
        self.assertIn("16.0 GiB free, 10.0 GiB of it kept: nlp 6.00 GiB, slices and keep_free 4.00 GiB", self.ration("explain", "--gpu", "0", NODE).stdout)
        self.assertIn("E1304", self.ration("run", NODE, "--tenant", "vision", "--guarantee", "7GiB", "--", "true").stderr)
        self.assertEqual(self.ration("run", NODE, "--tenant", "vision", "--limit", "14GiB", "--guarantee", "6GiB", "--", "true").returncode, 0)
        self.assertEqual(self.ration("run", NODE, "--tenant", "vision", "--slice", "0.1", "--", "true").returncode, 0, "a slice is its own room")
        self.assertIn("E1304", self.ration("set", "vision", "--guarantee", "7GiB").stderr)
        self.assertIn("E1420", self.ration("set", "vision", "--limit", "8GiB", "--gpu", "0").stderr)
        self.holding("train", "2GiB", "--limit", "4GiB", "--tenant", "nlp")
        self.row("train")
        self.assertEqual(self.get("/api/v1/devices")[0]["available_bytes"], 6 * GIB, "the tenant takes of its own")

    def test_a_size_fits_for_one_tenant_and_not_for_another(self):
        self.assertEqual(self.ration("fits", "12GiB", NODE, "--tenant", "nlp").stdout, "0\n", "what nlp is guaranteed is there for nlp")
        self.assertIn("13.0 GiB never fits: the limit of tenant nlp is 12.0 GiB on GPU 0", self.ration("fits", "13GiB", NODE, "--tenant", "nlp").stderr)
        self.assertEqual(self.ration("fits", "7GiB", NODE, "--tenant", "vision").returncode, 4)
        self.assertIn("E1801", self.ration("fits", "1GiB", NODE, "--tenant", "nlpp").stderr)
        self.holding("train", "2GiB", "--limit", "4GiB", "--tenant", "nlp")
        self.row("train")
        self.assertEqual(self.ration("set", "nlp", "--limit", "7GiB").returncode, 0)
        done = self.ration("fits", "6GiB", NODE, "--tenant", "nlp")
        self.assertIn("6.00 GiB does not fit now: tenant nlp has 4.94 GiB left of its limit of 7.00 GiB on GPU 0.", done.stderr)
        for words in re.findall(r"ration (fits .*?)   would", done.stderr):
            self.assertEqual(self.ration(*words.split()).returncode, 0, words)
        self.assertIn("--wait --tenant nlp --limit 6GiB", done.stderr)

    def test_what_others_were_promised_counts_against_a_tenants_guarantee(self):
        self.holding("g", "1GiB", "--tenant", "vision", "--guarantee", "6GiB", "--limit", "8GiB")
        self.row("g")
        done = self.ration("set", "npl", "--guarantee", "8GiB")
        self.assertIn("no running workload or tenant is named 'npl'. Did you mean 'nlp'?", done.stderr)
        done = self.ration("set", "nlp", "--guarantee", "8GiB")
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.stderr, r"E1304 .*8\.00 GiB cannot be promised to nlp: GPU 0 has 16\.0 GiB; promised already: "
                                      r"6\.00 GiB to vision, 4\.00 GiB to slices and keep_free")
        self.assertIn("--guarantee 6GiB, at most", done.stderr)

    def test_what_is_sliced_or_kept_free_is_nobody_elses(self):
        self.until(lambda: [each for each in self.get("/api/v1/devices") if each["promised_bytes"] > 6 * GIB], "the device, cut")
        program = subprocess.Popen([BIN / "ration", "run", NODE, "--tenant", "nlp", "--name", "all", "--limit", "12GiB", "--", BIN / "ration-workload", "obey"],
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (program.terminate(), program.communicate()))
        self.row("all")
        self.ration("set", "nlp", "--limit", "16GiB")
        self.ration("set", "all", "--limit", "16GiB")
        self.until(lambda: self.row("all")["limit_bytes"] == 12 * GIB, "4 of the 16 GiB are kept")
        refused = self.ration("set", "all", "--limit", "15GiB")
        self.assertIn("The limit in force is 12.0 GiB now", refused.stdout)
        self.holding("inside", "1GiB", "--slice", "0.1")
        self.assertIn("more than its slice 0.1 has (2.00 GiB)", self.ration("set", "inside", "--limit", "3GiB").stderr)

    def test_who_is_refused_what_is_kept_is_told_so(self):
        self.until(lambda: [each for each in self.get("/api/v1/devices") if each["promised_bytes"] > 6 * GIB], "the device, cut")
        program = subprocess.Popen([BIN / "ration", "run", NODE, "--tenant", "vision", "--name", "plain", "--limit", "10GiB", "--", BIN / "ration-workload", "obey"],
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(lambda: (program.kill(), program.wait()))
        self.until(lambda: self.row("plain")["limit_bytes"] == 6 * GIB, "the rest is kept")
        program.stdin.write("take 8192\n")
        program.stdin.close()
        self.assertEqual(program.wait(60), 0)  # it is over before anybody looks
        denied = self.until(lambda: self.events("denied"), "it is told")[-1]
        self.assertIn("its limit in force was 6.00 GiB, not the configured 10.0 GiB", denied["text"])
        text = self.ration("why", denied["id"]).stdout
        self.assertRegex(text, r"because  plain held .*, and its limit in force was 6\.00 GiB, not the configured 10\.0 GiB: ")
        self.assertNotIn("ration set plain", text)

    def waiting(self):
        """Starts a run of 5 GiB, which waits: of 12 GiB, 6 GiB are kept for nlp, and another workload holds 2 GiB."""
        self.holding("train", "2GiB", "--limit", "2200MiB", "--tenant", "vision")
        self.row("train")
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--wait", "--tenant", "vision", "--limit", "5GiB", "--", "true"],
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        return process

    def test_what_guarantees_never_leave_is_not_waited_for(self):
        done = self.ration("run", NODE, "--wait", "--tenant", "vision", "--limit", "10GiB", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("E1104 ration: 10.0 GiB will never be free for tenant vision: 6.00 GiB of the 15.0 GiB of GPU 0 are guaranteed to nlp.", done.stderr)

    def test_who_waits_for_what_is_kept_is_told_for_whom(self):
        process = self.waiting()
        lease = self.until(lambda: self.get("/api/v1/leases"), "it waits")[0]
        self.assertEqual(lease["reason"], "GPU 0 has 9.94 GiB left, 6.00 GiB of it kept for nlp (guarantees)")
        done = self.ration("why", lease["lease"])
        self.assertRegex(done.stdout, r"WAITING .*5\.00 GiB\nbecause  GPU 0 has 9\.94 GiB left.*\ntaken by .*slices 3\.00 GiB · .*kept free 1\.00 GiB.*\nposition 1 of 1\nestimate n/a \(")
        self.assertEqual(self.ration("set", "nlp", "--guarantee", "2GiB").returncode, 0)
        self.assertEqual(process.wait(60), 0)

    def test_who_is_taken_out_of_the_queue_is_told_and_stays_out(self):
        process = self.waiting()
        lease = self.until(lambda: self.get("/api/v1/leases"), "it waits")[0]["lease"]
        self.assertEqual(self.ask("DELETE", "/api/v1/leases/" + lease)[0], 204)
        text = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 4, text)
        self.assertRegex(text, rf"E1549 .*{lease} was removed from the queue by \w+")
        self.assertEqual(self.get("/api/v1/leases"), [])

    def test_a_tenant_is_not_shrunk_below_what_it_holds_without_a_yes(self):
        self.holding("train", "2GiB", "--limit", "4GiB", "--tenant", "vision")
        self.row("train")
        done = self.ration("set", "vision", "--limit", "1GiB")
        self.assertEqual((done.returncode, "E1205" in done.stderr), (4, True), done.stderr)
        self.assertIn("holds 2.06 GiB, 1.06 GiB more", done.stderr)
        self.assertEqual(self.row("train")["limit_bytes"], 4 * GIB)
        self.assertIn("1.06 GiB above its limit", self.ration("set", "vision", "--limit", "1GiB", "--dry-run").stdout)
        self.assertEqual(self.ration("set", "vision", "--limit", "1GiB", "--yes").returncode, 0)
        self.until(lambda: self.row("train")["state"] == "shrinking", "it shrinks")
        self.assertIn("E1104", self.ration("set", "vision", "--limit", "40GiB").stderr)

    def test_slices_of_the_configuration_are_cut_and_those_by_hand_stay(self):
        def slices():
            return [(row["slice"], row["limit_bytes"]) for row in json.loads(self.ration("split", NODE, "-o", "json").stdout)["data"]]
        self.until(lambda: slices() == [("0.0", GIB), ("0.1", 2 * GIB)], "they are cut")
        path = self.folder / "ration.toml"
        path.write_text(path.read_text().replace('"1GiB", "2GiB"', '"3GiB"'))
        self.assertIn("slices", self.ration("config", "reload").stdout)
        self.until(lambda: slices() == [("0.0", 3 * GIB)], "they follow the file")
        self.assertEqual(self.ration("split", "0", "--sizes", "2GiB", "--names", "mine", NODE).returncode, 0)
        self.assertEqual(self.ration("config", "reload").returncode, 0)
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 2, "two looks")
        self.assertEqual(slices(), [("mine", 2 * GIB)])

    def test_a_dry_run_of_a_schedule_changes_nothing(self):
        self.assertIn("E1305 ration: tenant nlp: limit 30% is 4.80 GiB on GPU 0, less than its guarantee 6GiB.", self.ration("set", "--schedule", "n=00:00-24:00:nlp=30%").stderr)
        done = self.ration("set", "--schedule", "n=00:00-24:00:nlp=50%", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nlp=50%", done.stdout)
        self.assertEqual(self.get("/api/v1/schedules"), [])
        self.assertEqual(self.ration("set", "--schedule", "n=00:00-24:00:nlp=50%").returncode, 0)
        self.assertNotIn("nlp=50%", self.ration("set", "--schedule", "n=off", "--dry-run").stdout)
        self.assertEqual(len(self.get("/api/v1/schedules")), 1)

    def test_reload_says_what_changed_or_what_is_wrong(self):
        self.assertEqual(self.ration("config", "reload").stdout, "read again: nothing changed\n")
        path = self.folder / "ration.toml"
        good = path.read_text()
        path.write_text(good.replace('limit = "14GiB"', 'limit = "13GiB"'))
        self.assertIn("14GiB → 13GiB", self.ration("config", "reload").stdout)
        path.write_text(good.replace("limit = ", "limti = "))
        done = self.ration("config", "reload")
        self.assertEqual((done.returncode, "limti" in done.stderr), (2, True), done.stderr)
        # More than there is, with those before it and what is kept free: refused whole, with the place.
        path.write_text(good + '\n[[tenant]]\nname = "greedy"\nlimit = "16GiB"\nguarantee = "15GiB"\n')
        done = self.ration("config", "reload")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"E1304 .*ration\.toml:\d+:\d+: the guarantee of tenant 'greedy' cannot be kept: .* GPU 0, which has 16\.0 GiB")
        self.assertNotIn("greedy", json.dumps(self.get("/api/v1/tenants")))

    def test_a_misspelt_field_is_refused_with_the_nearest(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.row("train")
        status, problem = self.ask("PATCH", "/api/v1/workloads/train", {"limt": "1GiB"})
        self.assertEqual((status, problem["id"], "'limit'" in problem["detail"]), (400, "E1521", True))

    def test_a_damaged_file_of_slices_ends_nobody(self):
        self.until(lambda: (self.folder / "slices.json").exists(), "they are cut")
        (self.folder / "slices.json").write_text('[{"slice": "a", "uuid": "x", "limit_bytes": 1, "from": 1}]')
        self.ask("POST", "/api/v1/reload", {})
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 2, "it goes on looking")


class PromisedTooMuch(Case):
    """The file promises more than there is: it can be worked off, and not made worse."""
    configuration = """
[[device]]
match = "0"
keep_free = "12GiB"
[[tenant]]
name = "nlp"
guarantee = "6GiB"
limit = "12GiB"
"""

    def test_a_guarantee_can_be_taken_away(self):
        self.assertNotIn("# nlp", self.ration("config", "print").stdout)
        self.assertIn("tenant nlp: guarantee 6GiB → none (now).", self.ration("set", "nlp", "--guarantee", "none").stdout)
        self.assertIn("# nlp was changed with ration set; its values now: ration explain", self.ration("config", "print").stdout)
        text = self.ration("fits", "5GiB", NODE).stderr
        self.assertIn("5.00 GiB never fits: the largest is GPU 0 with 16.0 GiB, 12.0 GiB of it kept free", text)
        self.holding("train", "1GiB", "--limit", "3GiB", "--tenant", "nlp", "--guarantee", "2GiB")
        self.row("train")
        self.assertIn("E1102", self.ration("set", "train", "--guarantee", "unlimited").stderr)
        for word in ("0", "0MiB", "none"):
            self.assertEqual(self.ration("set", "train", "--guarantee", "1GiB").returncode, 0)
            self.assertIn("guarantee 1.00 GiB → 0 B", self.ration("set", "train", "--guarantee", word).stdout)
            self.until(lambda: self.row("train")["guarantee_bytes"] == 0, "nothing is promised any more")

    def test_slices_beside_a_guarantee_are_cut_anew(self):
        self.assertEqual(self.ration("set", "nlp", "--guarantee", "1GiB").returncode, 0)
        self.until(lambda: self.get("/api/v1/devices")[0]["promised_bytes"] == GIB, "the daemon has taken it up")
        self.assertEqual(self.ration("split", NODE, "0", "--sizes", "1GiB,1GiB").returncode, 0)
        self.until(lambda: self.get("/api/v1/devices")[0]["promised_bytes"] == 3 * GIB, "it sees the slices")
        done = self.ration("split", NODE, "0", "--sizes", "3GiB")
        self.assertEqual(done.returncode, 0, f"12 are kept free, 1 is promised: 3 are left: {done.stderr}")
        self.until(lambda: self.get("/api/v1/devices")[0]["promised_bytes"] == 4 * GIB, "and those cut anew")
        self.assertIn("E1304", self.ration("split", NODE, "0", "--sizes", "3GiB,1GiB").stderr)

    def test_what_promises_nothing_more_is_possible(self):
        told = self.until(lambda: [event["text"] for event in self.events("config") if "cannot be kept" in event["text"]], "it is told")
        self.assertRegex(told[0], r"ration\.toml:\d+:\d+: the guarantee of tenant 'nlp' .* the 12\.0 GiB kept free, 18\.0 GiB would be promised .*lower it by 2\.00 GiB")
        self.assertEqual(self.ration("set", "nlp", "--limit", "10GiB").returncode, 0)
        self.assertIn("E1304", self.ration("set", "nlp", "--guarantee", "7GiB").stderr)
        self.assertEqual(self.ration("set", "nlp", "--guarantee", "3GiB").returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
