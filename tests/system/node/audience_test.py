"""Who sees what: every path of the description is asked as a request without a name, as a tenant and as an operator."""
import http.client
import json
import os
import unittest

from node_case import BIN, NOBODY, Case, UnixConnection

# Words by which others could be recognised: their names, and what only an owner and operators may read.
NAMES, PRIVATE = ("hidden-workload", "hidden-tenant"), ("hidden-label", "hidden-argument")
OWN = ("hidden-workload", "hidden-tenant", "hidden-label", "hidden-argument")


class Audience(Case):
    configuration = ('metrics_processes = true\n[[tenant]]\nname = "hidden-tenant"\nlimit = "6GiB"\nprice = "0.031 EUR/GiB·h"\n'
                     '[[schedule]]\nwhen = "1:00-2:00"\nset.hidden-tenant = "50%"\n')

    def setUp(self):
        super().setUp()
        self.holding("hidden-workload", "1GiB", "--tenant", "hidden-tenant", "--limit", "2GiB", "--label", "exp=hidden-label")
        self.ration("run", self.node, "--name", "hidden-denied-workload", "--tenant", "hidden-tenant", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
        self.pid = self.row("hidden-workload")["processes"][0]["pid"]
        self.denial = self.events("denied")[0]
        self.folder.chmod(0o755)
        self.description = json.loads(self.over_port("GET", "/openapi.json")[1])
        self.token = (self.folder / "state/token").read_text().strip()

    def over_port(self, method, path, body=None, **headers):
        return self.conversed(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60), method, path, body, headers)

    def over_socket(self, method, path, body=None):
        return self.conversed(UnixConnection(self.folder / "ration.sock"), method, path, body, {})

    def conversed(self, connection, method, path, body, headers):
        """Status and text. Of a stream: what came until its second snapshot, so that events published between are in it."""
        self.addCleanup(connection.close)
        connection.request(method, path, body, {**headers, **({"Content-Type": "application/json"} if body else {})})
        answer = connection.getresponse()
        if not path.startswith("/api/v1/stream"):
            return answer.status, answer.read().decode()
        text, snapshots = "", 0
        while snapshots < 2:
            line = answer.readline().decode()
            self.assertTrue(line, text)
            snapshots += line.startswith("event: snapshot")
            text += line
        return answer.status, text + answer.readline().decode()

    def as_tenant(self, ask):
        """What `ask` returns where it runs as a user who is no operator."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                answer = ask()
            except BaseException as problem:  # noqa: BLE001: it is told to the parent
                answer = (0, repr(problem))
            with os.fdopen(writing, "wb") as told:
                told.write(json.dumps(answer).encode())
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as told:
            answer = json.loads(told.read())
        os.waitpid(child, 0)
        return answer

    def operations(self):
        """Method, path, body and who may, of every path that reads, and of those that change with a body that changes nothing."""
        for template, operations in self.description["paths"].items():
            for method, operation in operations.items():
                path = template.format(name="hidden-tenant" if "tenants" in template else "night" if "schedules" in template else "hidden-workload",
                                       id=self.denial["denial"] if "denials" in template else self.denial["id"] if "events" in template else "q-99",
                                       workload="hidden-denied-workload", pid=self.pid, gpu="0", asset="favicon.svg", path="index.html", period="2026-01")
                if template.endswith("/stream"):
                    path += "?topics=snapshot,events&every=100ms&last_event_id=1"
                if template.endswith("runs/last"):
                    path += "?workload=hidden-denied-workload"
                yield method.upper(), path, None if method == "get" else "{}", operation["x-who"]

    def test_without_a_name_every_path_shows_totals_or_is_withheld(self):
        shown, withheld = 0, 0
        for method, path, body, who in self.operations():
            with self.subTest(method=method, path=path, who=who):
                status, text = self.over_port(method, path, body)
                for word in OWN:
                    # A problem may repeat the name that was asked for, and nothing else.
                    self.assertNotIn(word, text.replace(path, ""), text)
                self.assertNotIn(str(self.folder), text, "no place on this machine")
                if who == "anyone":
                    self.assertNotEqual(status, 403, text)
                    shown += 1
                else:
                    self.assertEqual(status, 403, text)
                    withheld += 1
        self.assertGreater(min(shown, withheld), 15)

    def test_without_a_name_health_says_whether_there_is_a_problem_and_no_more(self):
        counts = {"pid", "looks", "look_seconds", "workloads", "stream_clients", "connections"}
        known = self.get("/api/v1/health")
        self.assertLessEqual(counts | {"folders"}, set(known))
        shown = json.loads(self.over_port("GET", "/api/v1/health")[1])["data"]
        self.assertEqual(set(shown), set(known) - counts - {"folders", "state_folder"})
        self.assertEqual({check["text"] for check in shown["checks"]}, {"ok"})
        self.assertEqual(set(json.loads(self.over_port("GET", "/api/v1/health", Authorization="Bearer " + self.token)[1])["data"]), set(known))
        # With a socket elsewhere, what an answer says to type names it; but to nobody without a name.
        path = "/api/v1/workloads"
        for status, text in (self.over_port("GET", path), self.over_port("GET", path, Authorization="Bearer wrong"), self.over_port("GET", "/api/v1/session")):
            self.assertNotIn("ration.sock", text)
        # An operator's next request on the same connection is an operator's, and the one after it nobody's.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(connection.close)
        for headers, seen in (({"Authorization": "Bearer " + self.token}, True), ({}, False)):
            connection.request("GET", "/api/v1/workloads/nobody", headers=headers)
            self.assertEqual("--sim" in connection.getresponse().read().decode(), seen)

    def test_totals_are_there_without_a_name(self):
        snapshot = json.loads(self.over_port("GET", "/api/v1/snapshot")[1])["data"]
        self.assertEqual([device["governed_bytes"] for device in snapshot["devices"]], [device["governed_bytes"] for device in self.get("/api/v1/devices")])
        self.assertEqual((snapshot["workloads"], snapshot["tenants"], snapshot["queue"]), ([], [], []))
        self.assertIn("totals only", snapshot["workloads_na"])
        metrics = self.over_port("GET", "/metrics")[1]
        self.assertIn("ration_device_memory_used_bytes{", metrics)
        self.assertIn("ration_queue_length", metrics)
        self.assertEqual(json.loads(self.over_port("GET", "/api/v1/session")[1])["data"]["role"], "anonymous")

    def test_a_tenant_sees_names_and_sums_and_nothing_private_of_others(self):
        named = 0
        for method, path, body, who in self.operations():
            if method != "GET":
                continue
            with self.subTest(path=path, who=who):
                status, text = self.as_tenant(lambda: self.over_socket(method, path, body))
                self.assertNotEqual(status, 0, text)
                for word in PRIVATE:
                    self.assertNotIn(word, text)
                if who in ("anyone", "user or operator"):
                    self.assertNotEqual(status, 403, text)
                    named += any(word in text for word in NAMES)
        self.assertGreater(named, 8)

    def test_a_token_shows_what_an_operator_sees(self):
        self.until(lambda: "hidden-tenant" in str(self.get("/api/v1/reports/usage?window=24h")["rows"]), "the first account")
        for path in ("/api/v1/workloads", "/api/v1/events", "/api/v1/reports/usage?window=24h", "/metrics", "/api/v1/series?by=workload", "/api/v1/schedules"):
            with self.subTest(path=path):
                status, text = self.over_port("GET", path, Authorization="Bearer " + self.token)
                self.assertEqual(status, 200, text)
                self.assertTrue(any(word in text for word in NAMES), text)
        self.assertIn("hidden-label", self.over_port("GET", "/api/v1/workloads", Authorization="Bearer " + self.token)[1])

    def test_the_configuration_widens_what_is_seen_without_a_name(self):
        self.until(lambda: "hidden-tenant" in str(self.get("/api/v1/reports/usage?window=24h")["rows"]), "the first account")
        self.stop()
        with open(self.folder / "ration.toml", "a") as configuration:
            configuration.write('[http]\nanonymous = "all"\n')
        self.start()
        self.row("hidden-workload")
        for path in ("/api/v1/workloads", "/api/v1/tenants", "/metrics", "/api/v1/events", "/api/v1/reports/usage?window=24h", "/"):
            with self.subTest(path=path):
                status, text = self.over_port("GET", path)
                self.assertEqual(status, 200, text)
                self.assertTrue(any(word in text for word in NAMES), text)
                self.assertFalse([word for word in PRIVATE if word in text], text)
        self.assertEqual(self.over_port("PATCH", "/api/v1/workloads/hidden-workload", '{"limit":"3GiB"}')[0], 403)


if __name__ == "__main__":
    unittest.main()
