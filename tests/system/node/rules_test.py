#!/usr/bin/env python3
"""What the configuration says, carried out: tenants by the hour and by hand, soft limits, limits of policies, and processes outside."""
import csv
import http.server
import io
import json
import os
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node.node_case import NODE, Case  # noqa: E402
from node_client import BIN, GIB, PATIENCE  # noqa: E402


class Tenants(Case):
    configuration = """
[[tenant]]
name = "nlp"
limit = "4GiB"
soft = "50%"
price = "1.5 EUR/GiB·h"
[[tenant]]
name = "day"
limit = "8GiB"
[[schedule]]
when = "00:00-24:00"
set = { day = "2GiB" }
"""

    def tenant(self, name):
        return next(row for row in self.get("/api/v1/tenants") if row["tenant"] == name)

    def limit(self, name):
        return self.tenant(name)["accounts"][0]["limit_bytes"]

    def test_a_tenant_is_changed_and_the_change_outlives_the_daemon(self):
        self.holding("train", "1GiB", "--limit", "6GiB", "--tenant", "nlp")
        self.until(lambda: self.row("train")["limit_bytes"] <= 4 * GIB, "the tenant's limit")
        done = self.ration("set", "nlp", "--limit", "5GiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4GiB → 5GiB", done.stdout)
        self.assertEqual(self.limit("nlp"), 5 * GIB)
        self.stop()
        self.start()
        self.until(lambda: self.limit("nlp") == 5 * GIB, "the change is remembered")
        self.assertEqual(self.tenant("nlp")["limit_from"], "root" if os.getuid() == 0 else os.environ["USER"])
        # What the file says later is newer.
        path = self.folder / "ration.toml"
        path.write_text(path.read_text().replace('"4GiB"', '"3GiB"'))
        self.assertEqual(self.ask("POST", "/api/v1/reload", {})[0], 200)
        self.assertEqual(self.limit("nlp"), 3 * GIB)
        self.until(lambda: self.row("train")["limit_bytes"] <= 3 * GIB, "and holds")

    def test_what_makes_no_sense_is_refused(self):
        for body, status, error in (({"limit": "4096"}, 400, "E1101"), ({"limit": "1GiB", "guarantee": "2GiB"}, 400, "E1305"),
                                    ({"limit": "unlimited", "guarantee": "15GiB"}, 200, None), ({}, 400, "E1420")):
            with self.subTest(body=body):
                code, answer = self.ask("PATCH", "/api/v1/tenants/nlp?dry_run=1", body)
                self.assertEqual((code, answer.get("id")), (status, error), answer)
        self.assertEqual(self.ask("PATCH", "/api/v1/tenants/nlq", {"limit": "1GiB"})[1]["id"], "E1801")
        self.assertEqual(self.ask("PATCH", "/api/v1/tenants/nlp", {"limit": "1GiB"}, **{"If-Match": '"7"'})[0], 412)
        self.assertEqual(self.limit("nlp"), 4 * GIB)
        if os.getuid() == 0:
            os.chmod(self.folder, 0o755)
            os.chmod(self.folder / "ration.sock", 0o666)
            self.assertEqual(self.as_nobody("PATCH", "/api/v1/tenants/nlp", '{"limit":"16GiB"}')[0], 403)

    def test_a_schedule_holds_in_its_hours(self):
        self.holding("train", "1GiB", "--limit", "6GiB", "--tenant", "day")
        self.until(lambda: self.row("train")["limit_bytes"] <= 2 * GIB, "the hour's limit")
        self.assertIn("schedule", self.tenant("day")["limit_from"])

    def test_what_it_pays_is_its_own_price_unless_another_is_asked_for(self):
        self.holding("train", "1GiB", "--limit", "3GiB", "--tenant", "nlp")

        def price(*options):
            rows = list(csv.DictReader(io.StringIO(self.ration("report", "-o", "focus", *options).stdout)))
            return next((row["ListUnitPrice"] for row in rows if row["SubAccountId"] == "nlp"), None)
        self.assertEqual(self.until(price, "a line of its own"), "1.5")
        self.assertEqual(price("--price", "0.031/GiB·h"), "0.031")

    def test_a_schedule_set_by_hand_holds_over_the_file_and_over_a_restart(self):
        self.holding("train", "1GiB", "--limit", "6GiB", "--tenant", "day")
        done = self.ration("set", "--schedule", "all=00:00-24:00:day=3GiB,nlp=50%")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"all +mon-sun +00:00-24:00 +day=3GiB,nlp=50% +holds +\w+\n- +mon-sun +00:00-24:00 +day=2GiB +holds")
        self.until(lambda: self.row("train")["limit_bytes"] == 3 * GIB, "the hour's limit")
        self.assertIn("set --schedule all", self.tenant("day")["limit_from"])
        self.stop()
        self.start()
        self.until(lambda: self.limit("nlp") == 8 * GIB, "it is remembered")
        # A tenant that is gone lets it rest, and it does no harm.
        path = self.folder / "ration.toml"
        before = path.read_text()
        path.write_text(before.replace('name = "nlp"', 'name = "language"'))
        self.assertEqual(self.ask("POST", "/api/v1/reload", {})[0], 200)
        self.assertIn("no tenant is named 'nlp'", self.get("/api/v1/schedules")[0]["rests"])
        self.assertEqual(self.limit("day"), 2 * GIB)
        path.write_text(before)
        self.ask("POST", "/api/v1/reload", {})
        self.assertEqual(self.limit("day"), 3 * GIB)
        self.assertEqual(self.ration("set", "--schedule", "all=off").returncode, 0)
        self.until(lambda: self.row("train")["limit_bytes"] <= 2 * GIB, "the file's limit")
        texts = [event["text"] for event in self.events("config") if event["text"].startswith("schedule all ")]
        self.assertEqual([text.split(" was ")[1].split(" by ")[0] for text in texts], ["set", "removed"])

    def test_a_schedule_that_makes_no_sense_is_refused(self):
        for text, code, error in (("night", 2, "E1601"), ("=22:00-07:00:nlp=1GiB", 2, "E1601"), ("n=22:00-07:00", 2, "E1601"), ("n=22:00-25:00:nlp=1GiB", 2, "E1601"),
                                  ("n=mon-fry 22:00-07:00:nlp=1GiB", 2, "E1601"), ("n=22:00-07:00:nlp=", 2, "E1601"), ("n=22:00-07:00:nlp=5", 2, "E1101"),
                                  ("n=22:00-07:00:nlp=1GiB,nlp=2GiB", 2, "E1601"), ("n=22:00-07:00:nlq=1GiB", 3, "E1801"), ("n/m=22:00-07:00:nlp=1GiB", 2, "E1601"),
                                  ("n=off", 3, "E1801")):
            with self.subTest(text=text):
                done = self.ration("set", "--schedule", text)
                self.assertEqual((done.returncode, done.stderr.split()[:1]), (code, [error]), done.stderr)
        for words in (("nlp", "--schedule", "n=off"), ("--limit", "1GiB")):
            done = self.ration("set", *words)
            self.assertEqual((done.returncode, done.stderr.split()[:1]), (2, ["E1001"]), done.stderr)
        self.assertEqual(len(self.get("/api/v1/schedules")), 1, "the one of the file")
        if os.getuid() == 0:
            os.chmod(self.folder, 0o755)
            os.chmod(self.folder / "ration.sock", 0o666)
            self.assertEqual(self.as_nobody("PUT", "/api/v1/schedules/n", '{"when":"22:00-07:00","set":{"nlp":"4GiB"}}')[0], 403)

    def test_another_try_gets_more_than_was_typed_not_more_than_others_left(self):
        self.holding("train", "3GiB", "--limit", "4GiB", "--tenant", "nlp")
        self.row("train")
        done = self.ration("run", NODE, "--tenant", "nlp", "--limit", "2GiB", "--retry", "1", "--", "bash", "-c", f"{BIN}/ration-workload hold 5GiB; exit 42")
        self.assertIn("denied at 2.00 GiB", done.stderr)
        self.assertIn("retry 1 of 1 with 2.50 GiB", done.stderr)
        self.assertEqual(done.returncode, 42, done.stderr)

    def test_a_soft_limit_warns_once(self):
        self.holding("train", "3GiB", "--limit", "4GiB", "--tenant", "nlp")
        event = self.until(lambda: self.events("alert"), "the warning")[0]
        self.assertIn("50% of its limit", event["text"])
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 3, "three looks")
        self.assertEqual(len(self.events("alert")), 1)


class Policies(Case):
    configuration = """
[[policy]]
match = { users = ["*"] }
per = "user"
limit = "4GiB"
"""

    def test_a_users_workloads_share_what_the_policy_gives(self):
        self.holding("one", "2GiB", "--limit", "8GiB")
        self.until(lambda: self.row("one")["limit_bytes"] <= 4 * GIB, "the policy holds")
        program = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "two", "--limit", "8GiB", "--", BIN / "ration-workload", "obey"],
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (program.kill(), program.communicate()))

        def take(mib):
            program.stdin.write(f"take {mib}\n")
            program.stdin.flush()
            return int(program.stdout.readline())
        self.assertEqual(take(1), 0)
        self.until(lambda: sum(row["limit_bytes"] for row in self.rows().values()) <= 4 * GIB, "both together")
        self.assertEqual(take(1536), 0, "what is left is there for it")
        self.assertEqual(take(1024), 2, "more than the user may have")
        self.assertIn("policy", self.row("two")["held_back_by"])


class Outsiders(Case):
    configuration = '[defaults]\nungoverned = "terminate"\ngrace = "1s"\n'

    DEAF = ("import ctypes, signal, time\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "driver, context = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p()\n"
            "assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
            "print('holding', flush=True)\n"
            "time.sleep(600)\n")

    def outsider(self, *command):
        environment = dict(self.environment, LD_LIBRARY_PATH=str(BIN.parent / "sim"), RATION_SIM=NODE[6:])
        process = subprocess.Popen(command or [BIN / "ration-workload", "hold", "1GiB"], env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        process.stdout.readline()
        return process

    def test_who_is_under_no_limit_is_told_and_ended(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        process = self.outsider()
        warning = self.until(lambda: self.events("alert"), "the warning")[0]
        self.assertEqual(warning["pid"], process.pid)
        self.assertIn("ended in 1s", warning["text"])
        self.assertEqual(process.wait(PATIENCE), 0, "it ends when it is asked to")
        self.until(lambda: any("SIGTERM" in event["text"] for event in self.events("alert")), "it is on record")
        self.assertIn("train", self.rows(), "who is under a limit is left alone")

    def test_who_does_not_listen_is_killed(self):
        process = self.outsider(sys.executable, "-c", self.DEAF)
        self.assertEqual(process.wait(PATIENCE), -9)


class Promises(Case):
    configuration = '[[tenant]]\nname = "nlp"\nguarantee = "8GiB"\n[[tenant]]\nname = "vision"\nlimit = "6GiB"\n'

    def test_what_is_kept_for_a_tenant_is_promised_to_nobody_else(self):
        done = self.ration("run", NODE, "--tenant", "vision", "--guarantee", "5GiB", "--limit", "5GiB", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.ration("run", NODE, "--guarantee", "9GiB", "--limit", "9GiB", "--", "true")
        self.assertEqual((done.returncode, done.stderr.split()[0]), (4, "E1304"), done.stderr)
        self.assertIn("promised already: 8.00 GiB to nlp", done.stderr)
        done = self.ration("run", NODE, "--tenant", "nlp", "--guarantee", "12GiB", "--limit", "12GiB", "--", "true")
        self.assertEqual(done.returncode, 0, "its own: " + done.stderr)
        self.holding("small", "1GiB", "--limit", "9GiB")
        code, answer = self.ask("PATCH", "/api/v1/workloads/small", {"guarantee": "9GiB"})
        self.assertEqual((code, answer["id"]), (409, "E1304"))

    def test_who_waits_for_more_than_its_tenant_may_have_is_told_so(self):
        done = self.ration("run", NODE, "--wait", "--tenant", "vision", "--limit", "7GiB", "--", "true")
        self.assertEqual((done.returncode, done.stderr.split()[0]), (2, "E1104"), done.stderr)
        self.assertIn("tenant vision: this tenant may hold 6.00 GiB", done.stderr)
        self.holding("serve", "2GiB", "--tenant", "vision", "--limit", "6GiB")
        waiter = subprocess.Popen([BIN / "ration", "run", NODE, "--wait", "--tenant", "vision", "--limit", "5GiB", "--", "true"],
                                  env=self.environment, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (waiter.terminate(), waiter.communicate()))
        self.assertIn("its tenant has 3.94 GiB left of its limit 6.00 GiB", waiter.stderr.readline())

    def test_a_run_between_two_looks_is_in_the_accounts(self):
        self.stop()
        path = self.folder / "ration.toml"
        path.write_text(path.read_text().replace('"100ms"', '"5s"'))
        self.start()
        done = self.ration("run", NODE, "--name", "brief", "--limit", "2GiB", "--", "sh", "-c",
                           f"{BIN}/ration-workload steps 1GiB:0s; {BIN}/ration-workload steps 3GiB:0s; true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.until(lambda: self.events("ended"), "it is over")
        text = self.until(lambda: (lambda data: data and "running" not in data["text"] and data["text"])(
            (self.ask("GET", "/api/v1/runs/last?workload=brief")[1] or {}).get("data")), "its run")
        self.assertRegex(text, r"2\.00 GiB / 2\.00 GiB")
        self.assertIn("denials 1", text)

    def test_who_comes_back_finds_its_tenants_limit(self):
        self.holding("first", "3GiB", "--tenant", "vision", "--limit", "6GiB")
        done = self.ration("suspend", "first")
        self.assertEqual(done.returncode, 0, done.stderr)
        other = self.holding("second", "5GiB", "--tenant", "vision", "--limit", "6GiB")
        self.assertEqual(self.ask("POST", "/api/v1/workloads/first/resume", {})[0], 202)
        self.until(lambda: self.get("/api/v1/leases"), "it waits")
        self.assertIn("its tenant has", self.get("/api/v1/leases")[0]["reason"])
        other.terminate()
        other.communicate()
        self.until(lambda: self.row("first")["state"] == "running", "its turn")
        self.until(lambda: self.get("/api/v1/leases") == [], "nothing is left of its wait")

    def test_what_one_still_holds_another_one_of_its_tenant_does_not_get(self):
        self.holding("first", "3GiB", "--tenant", "vision", "--limit", "6GiB")
        self.assertEqual(self.ration("set", "first", "--limit", "600MiB", "--yes").returncode, 0)
        done = self.ration("run", NODE, "--tenant", "vision", "--limit", "6GiB", "--name", "second", "--", BIN / "ration-workload", "steps", "3300MiB:0s")
        self.assertNotEqual(done.returncode, 0)
        done = self.ration("run", NODE, "--tenant", "vision", "--limit", "6GiB", "--name", "second", "--", BIN / "ration-workload", "steps", "2500MiB:0s")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_names_that_several_have(self):
        first = self.holding("same", "64MiB", "--limit", "1GiB")
        done = self.ration("set", "nlp/none", "--limit", "2GiB")
        self.assertEqual((done.returncode, done.stderr.split()[0]), (3, "E1801"))
        tenant = self.row("same")["tenant"]
        done = self.ration("set", tenant + "/same", "--limit", "2GiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        other = self.folder / "other"
        other.mkdir()
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "same", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "64MiB"],
                                   env=dict(self.environment, RATION_RUNTIME_DIR=str(other), RATION_SOCKET=str(self.folder / "ration.sock")),
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        process.stdout.readline()
        code, answer = self.ask("PATCH", "/api/v1/workloads/same", {"limit": "3GiB"})
        self.assertEqual((code, answer["id"]), (404, "E1802"), answer)
        self.assertIn("2 workloads are named 'same'", answer["detail"])
        self.assertIsNone(first.poll())


class Webhooks(Case):
    """What is configured to be told of alerts: it hears each once, redirects lead nowhere, and failing is said."""

    def setUp(self):
        heard = self.heard = []

        class Place(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                heard.append((self.path, self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(302 if self.path.startswith("/moved") else 200)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Place)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(lambda: (server.shutdown(), server.server_close()))
        self.base = f"http://127.0.0.1:{server.server_port}"
        self.configuration = f'[alerts]\nrules = ["denials > 0"]\nwebhook = "{self.base}/hook?key=se%22cret"\n'
        super().setUp()

    def raised(self):
        return self.until(lambda: [event for event in self.events("alert") if "raised" in event["text"]], "the alert")[0]

    def test_each_alert_is_told_once(self):
        self.be_denied()
        event = self.raised()
        self.until(lambda: self.heard, "the place hears of it")
        path, kind, body = self.heard[0]
        told = json.loads(body)
        self.assertEqual((path, kind), ("/hook?key=se%22cret", "application/json"))
        self.assertEqual((told["id"], told["type"], told["text"]), (event["id"], "alert", event["text"]))
        self.assertTrue(told["host"])
        self.assertEqual(len(self.heard), len({body for _, _, body in self.heard}))

    def be_denied(self):
        script = (f"{BIN}/ration-workload hold 2GiB; exec {BIN}/ration-workload hold 512MiB")
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "train", "--limit", "1GiB", "--", "sh", "-c", script],
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))

    def test_a_redirect_leads_nowhere_and_is_said_to_fail(self):
        path = self.folder / "ration.toml"
        path.write_text(path.read_text().replace("/hook", "/moved"))
        self.assertEqual(self.ask("POST", "/api/v1/reload", {})[0], 200)
        self.be_denied()
        self.raised()
        self.until(lambda: any("webhook: the receiver answers with 302" in event["text"] for event in self.events("daemon")), "it is said")
        self.assertEqual({path for path, _, _ in self.heard}, {"/moved?key=se%22cret"})


if __name__ == "__main__":
    unittest.main()
