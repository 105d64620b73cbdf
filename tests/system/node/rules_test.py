#!/usr/bin/env python3
"""What the configuration says, carried out: tenants by the hour and by hand, soft limits, limits of policies, and processes outside."""
import http.server
import json
import os
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from node_test import BIN, GIB, NODE, PATIENCE, Case  # noqa: E402


class Tenants(Case):
    configuration = """
[[tenant]]
name = "nlp"
limit = "4GiB"
soft = "50%"
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
        self.until(lambda: any("webhook: it answers with 302" in event["text"] for event in self.events("daemon")), "it is said")
        self.assertEqual({path for path, _, _ in self.heard}, {"/moved?key=se%22cret"})


if __name__ == "__main__":
    unittest.main()
