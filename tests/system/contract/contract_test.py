#!/usr/bin/env python3
"""What programs may rely on: every document of every verb and of every path is as its schema says; the description of the
HTTP interface (openapi.json) says what the daemon does, and nothing else."""
import json
import re
import subprocess
import tempfile
import tomllib
import unittest

import jsonschema

import documents
from scene import NODE, SCHEMAS, Scene  # first: it says where the next is
from node_client import BIN, GIB, SOURCE, until  # isort: skip

scene = None
HISTORY = SOURCE / "share/ration/traces/medium_512_inference.csv"


def setUpModule():
    global scene
    scene = Scene()


def tearDownModule():
    scene.end()


def documentation():
    """Whether its pages are where the program under test looks for them: ./dev docs makes them."""
    return (BIN.parent / "share/doc/ration/site/index.html").exists()


def called():
    """Requests that together show every answer: method, path, body, headers, status."""
    def claim(size, uuid=scene.get("/api/v1/devices")["data"][0]["uuid"], **more):
        return {"name": "ml/four", "devices": [{"uuid": uuid, "limit_bytes": size}], **more}

    big = {"bytes": 11 * GIB, "gpu": "0", "tenant": "nlp", "wait": "1h", "command": "big", "priority": 1}
    return [
        ("GET", "/", None, {}, 200), ("GET", "/timeline", None, {}, 200), ("GET", "/map", None, {}, 200), ("GET", "/events", None, {}, 200),
        ("GET", "/recordings", None, {}, 200), ("GET", "/recordings/train.rec", None, {}, 200),
        ("GET", "/tenants", None, {}, 200), ("GET", "/reports", None, {}, 200), ("GET", "/queue", None, {}, 200),
        ("GET", "/health", None, {}, 200), ("GET", "/workloads/train", None, {}, 200), ("GET", "/no-such-file.js", None, {}, 404),
        ("GET", "/docs", None, {}, 307 if documentation() else 404), ("GET", "/docs/index.html", None, {}, 200 if documentation() else 404),
        ("GET", "/docs/..%2f..%2fVERSION", None, {}, 404),
        ("GET", "/healthz", None, {}, 200), ("GET", "/readyz", None, {}, 200), ("GET", "/metrics", None, {}, 200),
        ("GET", "/openapi.json", None, {}, 200), ("GET", "/api/v1/openapi.json", None, {"Accept-Encoding": "identity;q=0"}, 406),
        ("GET", "/api/v1/openapi.json", None, {}, 200),
        ("GET", "/api/v1/session", None, {}, 200), ("POST", "/api/v1/session", {"token": scene.once}, {}, 200), ("POST", "/api/v1/session", {"token": scene.once}, {}, 401),
        ("POST", "/api/v1/session", {}, {}, 401), ("POST", "/api/v1/session", {"token": 5}, {}, 400), ("POST", "/api/v1/session", [], {}, 400),
        ("POST", "/api/v1/session/link", {}, {}, 201),
        ("GET", "/api/v1/health", None, {}, 200), ("GET", "/api/v1/snapshot", None, {}, 200),
        ("GET", "/api/v1/workloads", None, {}, 200), ("GET", "/api/v1/devices", None, {}, 200), ("GET", "/api/v1/tenants", None, {}, 200),
        ("GET", "/api/v1/devices/1", None, {}, 200), ("GET", "/api/v1/devices/9", None, {}, 404),
        ("GET", "/api/v1/workloads/train", None, {}, 200), ("GET", "/api/v1/workloads/none", None, {}, 404),
        ("GET", "/api/v1/tenants/nlp", None, {}, 200), ("GET", "/api/v1/tenants/none", None, {}, 404),
        ("GET", "/api/v1/devices/0/explain", None, {}, 200), ("GET", "/api/v1/devices/9/explain", None, {}, 404),
        ("GET", "/api/v1/workloads/train/explain", None, {}, 200), ("GET", "/api/v1/workloads/none/explain", None, {}, 404),
        ("GET", f"/api/v1/processes/{scene.pid}/explain", None, {}, 200), ("GET", f"/api/v1/processes/{scene.outsider}/explain", None, {}, 200),
        ("GET", "/api/v1/processes/1/explain", None, {}, 404),
        ("GET", "/api/v1/schedules", None, {}, 200), ("PUT", "/api/v1/schedules/night?dry_run=1", {"when": "22:00-07:00", "set": {"nlp": "90%"}}, {}, 200),
        ("PUT", "/api/v1/schedules/night", {"when": "22:00-07:00", "set": {"nlp": "90%"}}, {}, 200),
        ("PUT", "/api/v1/schedules/night", {"when": "22:00"}, {}, 400), ("PUT", "/api/v1/schedules/night", {"when": "22:00-07:00", "set": {"nlq": "90%"}}, {}, 404),
        ("PUT", "/api/v1/schedules/day", {"when": "22:00-07:00", "set": {"nlp": "1GiB"}}, {}, 400), ("PUT", "/api/v1/schedules/day", {"when": "22:00-07:00", "set": 5}, {}, 400),
        ("DELETE", "/api/v1/schedules/night?dry_run=1", None, {}, 200), ("DELETE", "/api/v1/schedules/night", None, {}, 200), ("DELETE", "/api/v1/schedules/night", None, {}, 404),
        ("GET", "/api/v1/tenants/nlp/explain", None, {}, 200), ("GET", "/api/v1/tenants/none/explain", None, {}, 404),
        ("PATCH", "/api/v1/workloads/train?dry_run=1", {"limit": "1GiB"}, {}, 200), ("PATCH", "/api/v1/workloads/train", {"limit": "6GiB"}, {}, 200),
        ("PATCH", "/api/v1/workloads/train", {"limit": "7GiB"}, {"If-Match": '"99"'}, 412),
        ("PATCH", "/api/v1/workloads/train", {"limit": "7GiB"}, {"If-Match": '"many"'}, 400), ("PATCH", "/api/v1/workloads/train", {"limit": "7"}, {}, 400),
        ("PATCH", "/api/v1/workloads/train", {"limit": "99GiB"}, {}, 400), ("PATCH", "/api/v1/workloads/train", {"guarantee": "15GiB"}, {}, 400),
        ("PATCH", "/api/v1/workloads/train", {}, {}, 400), ("PATCH", "/api/v1/workloads/none", {"limit": "7GiB"}, {}, 404),
        ("PATCH", "/api/v1/workloads/train", {"limit": "7GiB", "gpu": "1"}, {}, 404),
        ("PATCH", "/api/v1/workloads/serve", {"limit": "16GiB", "guarantee": "14GiB"}, {}, 409),
        ("PATCH", "/api/v1/tenants/nlp?dry_run=1", {"limit": "11GiB"}, {"If-Match": '"0"'}, 200), ("PATCH", "/api/v1/tenants/nlp", {"limit": "11GiB"}, {"If-Match": '"9"'}, 412),
        ("PATCH", "/api/v1/tenants/none", {"limit": "11GiB"}, {}, 404), ("PATCH", "/api/v1/tenants/nlp", {}, {}, 400),
        ("GET", "/api/v1/snapshot?processes=1", None, {}, 200), ("GET", "/api/v1/workloads?processes=0", None, {}, 200), ("GET", "/api/v1/snapshot?processes=x", None, {}, 400),
        ("GET", "/api/v1/snapshot?tenant=", None, {}, 200), ("GET", "/api/v1/snapshot?tenant=nlp", None, {}, 200), ("GET", "/api/v1/snapshot?tenant=none", None, {}, 404),
        ("GET", "/api/v1/snapshot?tenant=a,b", None, {}, 400),
        *(("GET", f"{path}?filter={text}", None, {}, status) for path in ("/api/v1/snapshot", "/api/v1/workloads", "/metrics")
          for text, status in (("used%3E1MiB", 200), ("governed=no", 200), ("usd=1", 400), ("used%3E4", 400), ("idle%3Esoon", 400), ("used%3Emany", 400), ("%21", 400))),
        ("POST", "/api/v1/workloads", {"folder": str(scene.folder), "tenant": "nlp", "labels": "a=b"}, {}, 200),
        ("POST", "/api/v1/workloads", {"folder": str(scene.folder), "tenant": "nlq"}, {}, 404),
        ("POST", "/api/v1/workloads", {"folder": str(scene.folder), "lease": "q-99", "book": f"{scene.folder}/books/x"}, {}, 409),
        ("POST", "/api/v1/workloads", {"folder": str(scene.folder), "lease": "q-99", "book": "/x"}, {}, 400),
        ("POST", "/api/v1/workloads", {"folder": "relative"}, {}, 400), ("POST", "/api/v1/workloads", [], {}, 400),
        ("POST", "/api/v1/reload", {}, {}, 200),
        ("POST", "/api/v1/workloads/serve/trim", {}, {}, 202), ("POST", "/api/v1/workloads/none/trim", {}, {}, 404),
        ("POST", "/api/v1/workloads/none/suspend", {}, {}, 404), ("POST", "/api/v1/workloads/none/stop", {}, {}, 404), ("POST", "/api/v1/workloads/serve/resume", {}, {}, 409),
        ("GET", "/api/v1/leases", None, {}, 200), ("GET", f"/api/v1/leases/{scene.lease}", None, {}, 200), ("GET", "/api/v1/leases/q-99", None, {}, 404),
        ("GET", "/api/v1/claims", None, {}, 200), ("GET", "/api/v1/claims/none", None, {}, 404), ("DELETE", "/api/v1/claims/none", None, {}, 204),
        ("PUT", "/api/v1/claims/c-1", claim(4 * GIB), {}, 200), ("GET", "/api/v1/claims/c-1", None, {}, 200), ("PUT", "/api/v1/claims/c-1", claim(2 * GIB), {}, 409),
        ("PUT", "/api/v1/claims/c-2", claim(999 * GIB), {}, 400), ("PUT", "/api/v1/claims/c-2", claim(1), {}, 400), ("PUT", "/api/v1/claims/c-2", {}, {}, 400),
        ("PUT", "/api/v1/claims/c-2", claim(GIB, uuid="GPU-none"), {}, 404), ("PUT", "/api/v1/claims/c-2", claim(GIB, on_deny="never"), {}, 400),
        ("PUT", "/api/v1/claims/-2", claim(GIB), {}, 400), ("PUT", "/api/v1/claims/c-2", claim(GIB, growth=True), {}, 400), ("DELETE", "/api/v1/claims/c-1", None, {}, 204),
        ("POST", "/api/v1/leases", big, {}, 202), ("POST", "/api/v1/leases", {"bytes": GIB, "gpu": "0"}, {}, 201),
        ("POST", "/api/v1/leases", {"bytes": 99 * GIB}, {}, 400), ("POST", "/api/v1/leases", {"bytes": 0}, {}, 400),
        ("POST", "/api/v1/leases", {"bytes": "1GiB"}, {}, 400), ("POST", "/api/v1/leases", {"bytes": GIB, "gpu": "x"}, {}, 400),
        ("POST", "/api/v1/leases", {"bytes": GIB, "gpu": "9"}, {}, 404), ("POST", "/api/v1/leases", {"bytes": GIB, "wait": "soon"}, {}, 400),
        ("DELETE", f"/api/v1/leases/{scene.lease}", None, {}, 204), ("DELETE", "/api/v1/leases/q-99", None, {}, 404),
        ("GET", "/api/v1/series", None, {}, 200),
        ("GET", "/api/v1/series?metric=used_bytes&by=workload&gpu=0&from=-6h&to=now&points=12&name=nlp/train", None, {}, 200),
        ("GET", "/api/v1/series?workload=train&points=9", None, {}, 200), ("GET", "/api/v1/series?by=device&gpu=1", None, {}, 200),
        ("GET", "/api/v1/series?metric=love", None, {}, 400), ("GET", "/api/v1/series?by=mood", None, {}, 400), ("GET", "/api/v1/series?gpu=9", None, {}, 404),
        ("GET", "/api/v1/series?from=now&to=-6h", None, {}, 400),
        ("GET", "/api/v1/events", None, {}, 200), ("GET", "/api/v1/events?since=1&type=denied,waited&workload=greedy&limit=5", None, {}, 200),
        ("GET", "/api/v1/events?limit=-1", None, {}, 400), ("GET", "/api/v1/events/1", None, {}, 200), ("GET", "/api/v1/events/x", None, {}, 400),
        ("GET", "/api/v1/events/999999", None, {}, 404), ("GET", "/api/v1/events/2/why", None, {}, 200), ("GET", "/api/v1/events/999999/why", None, {}, 404),
        ("GET", "/api/v1/events/x/why", None, {}, 400),
        ("GET", f"/api/v1/denials/{scene.denial}", None, {}, 200), ("GET", "/api/v1/denials/d-9-9", None, {}, 404),
        ("GET", "/api/v1/reports/usage", None, {}, 200),
        ("GET", "/api/v1/reports/usage?window=24h&by=user&basis=limit&price=0.03&share_idle=even&format=json", None, {}, 200),
        ("GET", f"/api/v1/reports/usage?window={scene.month}", None, {}, 200), ("GET", "/api/v1/reports/usage?format=csv", None, {}, 200),
        ("GET", "/api/v1/reports/usage?format=md", None, {}, 200),
        ("GET", "/api/v1/reports/usage?format=focus", None, {}, 200), ("GET", "/api/v1/reports/usage?format=opencost", None, {}, 200),
        ("GET", "/api/v1/reports/usage?format=pdf", None, {}, 400), ("GET", "/api/v1/reports/usage?by=mood", None, {}, 400),
        ("POST", f"/api/v1/reports/periods/{scene.month}:close", {}, {}, 409), ("POST", "/api/v1/reports/periods/2099-01:close", {}, {}, 409),
        ("POST", "/api/v1/reports/periods/soon:close", {}, {}, 400), ("POST", "/api/v1/reports/periods/1999-12:close", {}, {}, 200),
        ("GET", "/api/v1/runs/last", None, {}, 200), ("GET", "/api/v1/runs/last?workload=train", None, {}, 200),
        ("GET", "/api/v1/runs/last?workload=none", None, {}, 404), ("GET", "/api/v1/runs/last?format=md", None, {}, 200), ("GET", "/api/v1/runs/last?format=csv", None, {}, 400),
        ("GET", "/api/v1/recommendations/train", None, {}, 200), ("GET", "/api/v1/recommendations/none", None, {}, 404),
        ("GET", "/api/v1/recordings", None, {}, 200), ("GET", "/api/v1/recordings/train.rec", None, {}, 200), ("GET", "/api/v1/recordings/none.rec", None, {}, 404),
        ("GET", "/api/v1/recordings/train.rec?from=0.0001&to=5&columns=7", None, {}, 200), ("GET", "/api/v1/recordings/train.rec?from=2&to=1", None, {}, 400),
        ("GET", "/api/v1/recordings/train.rec/moment", None, {}, 200), ("GET", "/api/v1/recordings/train.rec/moment?at=0.0001", None, {}, 200),
        ("GET", "/api/v1/recordings/train.rec/moment?at=soon", None, {}, 400), ("GET", "/api/v1/recordings/none.rec/moment", None, {}, 404),
        ("GET", "/api/v1/recordings/train.rec/usage?from=0&to=1", None, {}, 200), ("GET", "/api/v1/recordings/train.rec/usage?to=-1", None, {}, 400),
        ("GET", "/api/v1/recordings/train.rec/changes?to=after.rec", None, {}, 200), ("GET", "/api/v1/recordings/train.rec/changes?to=none.rec", None, {}, 404),
        ("GET", "/api/v1/stream?topics=weather", None, {}, 400), ("GET", "/api/v1/stream?every=soon", None, {}, 400),
        ("GET", "/api/v1/stream?last_event_id=x", None, {}, 400), ("GET", "/api/v1/stream", None, {"Last-Event-ID": "x"}, 400),
    ]


class Contract(unittest.TestCase):
    def description(self):
        return json.loads(scene.raw("GET", "/openapi.json")[2])

    # ------------------------------------------------------------------------------------------------- the command line

    def verbs(self):
        """Every verb that prints JSON, from the program's own help."""
        names = re.search(r"Verbs: (.*)", scene.ration().stdout).group(1).split()
        return {name for name in names if re.search(r"--output .*\bjson\b|--json\b", " ".join(scene.ration(name, "--help").stdout.split()))}

    def test_every_verb_prints_what_its_schema_says(self):
        commands = {
            "run": [("run", 0, NODE, "--limit", "1GiB", "--dry-run", "-o", "json", "--", "true"), ("run", 2, NODE, "--limit", "9", "-o", "json", "--", "true")],
            "ps": [("ps", 0, NODE), ("ps", 3, NODE, "--gpu", "9")],
            "explain": [("explain_workload", 0, "train", NODE), ("explain_process", 0, scene.pid, NODE), ("explain_process", 0, scene.outsider, NODE), ("explain_device", 0, "--gpu", "0", NODE),
                        ("explain_tenant", 0, "--tenant", "nlp", NODE), ("explain_tenant", 0, "vision", NODE), ("explain", 3, "none", NODE)],
            "why": [("why", 0, scene.denial), ("why", 3, "d-99-1")],
            "split": [("split", 0, NODE)],
            "whatif": [("whatif", 0, HISTORY), ("whatif", 4, HISTORY, "--limit", "1GiB"), ("whatif", 4, HISTORY, "--with", HISTORY, "--gpu", "2GiB"), ("whatif", 0, "a=4GiB", "--gpu", "T4"), ("whatif", 4, "a=40GiB", "--gpu", "T4"), ("whatif", 2, "/nonexistent.rec"),
                       ("whatif", 0, HISTORY, "--run", "--sim=T4", "-o", "json", "--", "true")],
            "inspect": [("inspect", 0, HISTORY), ("inspect", 0, HISTORY, "--at", "1ms"), ("inspect", 0, HISTORY, "--diff", HISTORY), ("inspect", 2, "/nonexistent.rec")],
            "set": [("change", 0, "train", "--limit", "6GiB", NODE), ("set", 3, "none", "--limit", "6GiB", NODE)],
            "fits": [("fits", 0, "1GiB", "--tenant", "nlp", NODE), ("fits", 4, "15GiB", NODE)],
            "doctor": [("doctor", None, NODE)],
            "env": [("env", 0, NODE, "--limit", "1GiB")],
            "sim": [("sim", 0, "env", NODE)],
            "config": [("config", 0, "print"), ("config", 0, "path"), ("config", 0, "validate"), ("config", 0, "init", scene.folder / "new.toml")],
            "events": [("events", 0), ("events", 0, "--type", "denied"), ("events", 3, "--socket", "/no/such")],
            "report": [("report", 0), ("report", 0, "--by", "user", "--price", "0.03"), ("report", 0, "--price", "0.03 USD/GiB·h"), ("report", 2, "--price", "1,5"), ("report", 0, "--window", scene.month), ("last_run", 0, "--last"),
                       ("last_run", 0, "--last", "train"), ("report", 3, "--last", "none"), ("report", None, "close", scene.month),
                       ("period", 0, "close", "1998-12"), ("report", 2, "close", "soon"), ("report", 3, "--slurm", "4711")],
            "trim": [("trim", 0, "serve"), ("trim", 0, "--idle", "1ms", "--dry-run"), ("trim", 3, "none")],
            "suspend": [("suspend", 0, "serve"), ("suspend", 4, "serve")],
            "resume": [("resume", 0, "serve", "--dry-run"), ("resume", 0, "serve"), ("resume", 4, "serve")],
            "stop": [("stop", 0, "train", "--dry-run"), ("stop", 3, "none", "--yes"), ("stop", 4, "train")],
            "top": [("top", 0, "--once")],
            "dashboard": [("dashboard", 0)],
            "recommend": [("recommend", 0, "train"), ("recommend", 3, "none"), ("recommend", 2, HISTORY)],
        }
        self.assertEqual(self.verbs(), set(commands), "a verb that prints JSON is not held against a schema here")
        for verb, calls in commands.items():
            for name, code, *arguments in calls:
                with self.subTest(verb=verb, arguments=arguments):
                    done = scene.ration(verb, *arguments, *([] if "json" in arguments else ["-o", "json"]))
                    document = json.loads(done.stdout)
                    if code is not None:
                        self.assertEqual(done.returncode, code, done.stderr)
                    self.assertEqual(documents.check(document), name)
                    if "error" in document:
                        self.assertEqual(document["error"]["exit_code"], done.returncode)

    def test_a_denial_that_only_the_daemon_remembers_has_the_same_schema(self):
        event = scene.events("waited")[0]
        denial = event["denial"]
        with_book = json.loads(scene.ration("why", denial, "-o", "json").stdout)
        book = next((scene.folder / "books").glob("patient.*.book"))
        hidden = book.rename(scene.folder / "away.book")
        self.addCleanup(hidden.rename, book)
        document = json.loads(scene.ration("why", denial, "-o", "json").stdout)
        self.assertEqual((documents.check(document), document["source"]), ("why", "daemon"))
        self.assertGreaterEqual(document["data"]["waited_seconds"], 0.2, "as --on-deny says")
        for told in (with_book["data"], event["why"]):
            self.assertEqual(document["data"]["waited_seconds"], told["waited_seconds"])

    def test_events_that_are_followed_are_lines_of_their_own_schema(self):
        follower = subprocess.Popen([BIN / "ration", "events", "-f", "-o", "json"], env=scene.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (follower.kill(), follower.communicate()))
        told = [json.loads(follower.stdout.readline()) for _ in range(5)]
        for document in told:
            documents.check(document, "event_line")
        numbers = [document["id"] for document in told]
        self.assertEqual(numbers, sorted(set(numbers)), "each once, in order")

    def test_every_schema_has_a_place_where_its_document_is_made_and_the_other_way_round(self):
        made = set()
        for path in [*(SOURCE / "src/cli").rglob("*.cpp"), *(SOURCE / "src/node").rglob("*.cpp")]:
            text = path.read_text()
            made |= set(re.findall(r'(?:print_json\(|(?:answer|reply)(?:_text)?\(|ask_history\(\s*responder, |answer_from\(request, responder, |\btell\(session, |\bmove\(session, [^"]*)"(\w+)"', text)) | set(re.findall(r'"ration\.(\w+)/1"', text))
        refusals = {"explain", "set"}  # what these verbs do has the schemas of HTTP
        self.assertEqual(made | refusals | {"problem", "event_line", "configuration"}, {path.stem for path in SCHEMAS.glob("*.json")})

    def test_schemas_are_schemas_and_say_the_same_of_the_same(self):
        parts = {}
        for path in sorted(SCHEMAS.glob("*.json")):
            schema = json.loads(path.read_text())
            jsonschema.Draft7Validator.check_schema(schema)
            self.assertEqual((schema["$id"], bool(schema["title"])), (f"ration.{path.stem}/1", True))
            if path.stem not in ("problem", "summary", "event_line"):
                parts[path.stem] = schema.get("oneOf", [schema])[0]["properties"]
        item = lambda name: parts[name]["data"]["items"]
        now = parts["snapshot"]["data"]["properties"]
        self.assertEqual([item("devices"), parts["ps"]["devices"]["items"]], [now["devices"]["items"]] * 2)
        self.assertEqual([item("workloads"), item("ps")], [now["workloads"]["items"]] * 2)
        self.assertEqual(item("tenants"), now["tenants"]["items"])
        self.assertEqual([item("leases"), parts["lease"]["data"], parts["ps"]["queue"]["items"]], [now["queue"]["items"]] * 3)
        self.assertEqual(item("events"), parts["event"]["data"])

    def test_a_configuration_file_with_every_key_is_as_its_schema_says(self):
        path = scene.folder / "every.toml"
        scene.ration("config", "init", path)
        text = re.sub(r"^# (\[\[.*|.* = .*)", r"\1", path.read_text(), flags=re.M)
        validator = jsonschema.Draft7Validator(json.loads((SCHEMAS / "configuration.json").read_text()))
        validator.validate(tomllib.loads(text))
        for line in ('growth = "yes"', "limitt = '1GiB'", "account = 'heep'"):
            self.assertFalse(validator.is_valid(tomllib.loads(f"[defaults]\n{line}")), line)

    def test_a_field_that_nobody_described_is_found(self):
        document = scene.get("/api/v1/devices")
        document["data"][0]["colour"] = "green"
        self.assertRaises(AssertionError, documents.check, document)
        document = scene.get("/api/v1/devices")
        document["data"][0]["temperature_celsius"] = None
        self.assertRaises(AssertionError, documents.check, document)

    def test_help_lists_and_prints_every_schema(self):
        listed = re.findall(r"^  ration help schema (\w+) +\S", scene.ration("help", "schema").stdout, re.M)
        self.assertEqual(listed, sorted(path.stem for path in SCHEMAS.glob("*.json")))
        for name in listed:
            self.assertEqual(json.loads(scene.ration("help", "schema", name).stdout)["$id"], f"ration.{name}/1")

    # -------------------------------------------------------------------------------------------------------------- HTTP

    def operation(self, description, method, path):
        """Template and operation; the file of the dashboard where nothing else fits."""
        for template in sorted(description["paths"], key=lambda template: template == "/{asset}"):
            pattern = "".join("[^/]+?" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{\w+\})", template))
            if re.fullmatch(pattern, path) and method.lower() in description["paths"][template]:
                return template, description["paths"][template][method.lower()]
        self.fail(f"{method} {path} is not described")

    def inlined(self, description, value):
        if isinstance(value, list):
            return [self.inlined(description, each) for each in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            found = description
            for step in value["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            return self.inlined(description, found)
        return {key: self.inlined(description, each) for key, each in value.items()}

    def held_against(self, description, method, path, status, headers, content):
        """The answer is one of those that the description has for the operation."""
        _, operation = self.operation(description, method, path.partition("?")[0])
        responses = operation["responses"]
        documented = self.inlined(description, responses.get(str(status), responses["default"]))
        if "content" not in documented:
            self.assertEqual(content, "")
            return
        kind = headers["Content-Type"].split(";")[0]
        self.assertIn(kind, documented["content"])
        if not kind.endswith("json"):
            return
        answer, schema = json.loads(content), documented["content"][kind]["schema"]
        jsonschema.Draft202012Validator(documents.closed(schema)).validate(answer)
        if kind == "application/problem+json":
            self.assertIn(answer["id"], documented["x-problems"])
            self.assertEqual(answer["status"], status)
        elif "schema" in answer:
            documents.check(answer)

    def test_every_answer_is_as_described(self):
        description = self.description()
        answered, given = set(), set()
        for method, path, body, headers, expected in called():
            with self.subTest(method=method, path=path, body=body):
                status, got, content = scene.raw(method, path, body, **headers)
                self.assertEqual(status, expected, content)
                self.held_against(description, method, path, status, got, content)
                template, _ = self.operation(description, method, path.partition("?")[0])
                answered.add((method.lower(), template, str(status)))
                given |= {(template, name.partition("=")[0]) for name in path.partition("?")[2].split("&") if name} | {(template, name) for name in headers}
                if method == "GET" and expected == 200:  # as somebody whom nobody knows: less is shown, in the same form
                    status, got, content = scene.raw(method, path, tcp=True, **headers)
                    self.assertIn(status, (200, 403))
                    self.held_against(description, method, path, status, got, content)
        described = {(method, template, status) for template, each in description["paths"].items() for method, operation in each.items()
                     for status in operation["responses"] if status.startswith("2")}
        # These have cases of their own.
        moved = {("post", "/api/v1/workloads/{name}/" + action, "202") for action in ("suspend", "resume", "stop")}
        unmade = set() if documentation() else {("get", "/docs/{path}", "200")}
        self.assertEqual(described - answered, {("get", "/api/v1/stream", "200"), ("get", "/{asset}", "200")} | moved | unmade)
        parameters = {(template, each["name"]) for template, operations in description["paths"].items() for operation in operations.values()
                      for each in operation.get("parameters", []) if each["in"] != "path"}
        self.assertEqual(parameters - given, set(), "a parameter that no request here gives")

    def test_what_is_moved_away_and_back_is_as_described(self):
        description = self.description()
        for action, state in (("suspend", "suspended"), ("resume", "running")):
            path = f"/api/v1/workloads/queued/{action}"
            status, headers, content = scene.raw("POST", path, {})
            self.assertEqual(status, 202, content)
            self.held_against(description, "POST", path, status, headers, content)
            until(lambda: {row["workload"]: row["state"] for row in scene.get("/api/v1/workloads")["data"] if row["governed"]}["queued"] == state, state)
            for place in ("snapshot", "leases", "events"):
                documents.check(scene.get(f"/api/v1/{place}"))

    def test_what_is_stopped_is_as_described(self):
        scene.holding("short", "1GiB", "--limit", "2GiB", "--gpu", "1")
        path = "/api/v1/workloads/short/stop"
        status, _, content = scene.raw("POST", path, {"kill": True}, tcp=True, Authorization="Bearer " + scene.token)
        self.assertEqual((status, json.loads(content)["id"]), (403, "E1523"), "a page in a browser ends no programs")
        for body in ({}, {"kill": True}):
            status, headers, content = scene.raw("POST", path, body)
            if body and status == 404:
                break  # SIGTERM was enough
            self.assertEqual(status, 202, content)
            self.held_against(self.description(), "POST", path, status, headers, content)
        until(lambda: "short" not in {row["workload"] for row in scene.get("/api/v1/workloads")["data"]}, "it has ended")

    def test_the_token_of_the_link_is_a_secret_of_its_own_and_stands_in_no_file(self):
        self.assertRegex(scene.once, r"^[0-9a-f]{64}$")
        self.assertNotEqual(scene.once, scene.token)
        status, _, _ = scene.raw("GET", "/api/v1/session", tcp=True, Authorization="Bearer " + scene.once)
        self.assertEqual(status, 401, "it is to be exchanged")
        files = [path for path in scene.folder.rglob("*") if path.is_file() and path.stat().st_size < 1 << 28]  # not the simulated memory
        self.assertTrue(any(path.name == "history.db" for path in files))
        self.assertEqual([path for path in files if scene.once.encode() in path.read_bytes()], [])

    def test_parameters_that_the_daemon_reads_are_described_and_the_other_way_round(self):
        read = set()
        for path in [*(SOURCE / "src/node/http").glob("*.cpp"), *(SOURCE / "src/node/request").glob("*.cpp"), *(SOURCE / "src/node").rglob("*_routes.cpp"), SOURCE / "src/http/stream.cpp"]:
            if "Request" in (source := path.read_text()):  # the others write rows
                read |= set(re.findall(r'(?:parameter\((?:request, )?|number\(request, |moment\(request, |\btext\()"(\w+)"', source))
        described = {each["name"] for operations in self.description()["paths"].values() for operation in operations.values()
                     for each in operation.get("parameters", []) if each["in"] == "query"}
        self.assertEqual(read, described)

    def test_the_stream_sends_what_the_schemas_say(self):
        description = self.description()
        for tcp in (False, True):
            connection = scene.connection(tcp)
            token = {"Authorization": "Bearer " + scene.token} if tcp else {}  # without it no event is sent
            connection.request("GET", "/api/v1/stream?topics=snapshot,events&every=100ms&last_event_id=0", headers=token)
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.headers["Content-Type"].split(";")[0]), (200, "text/event-stream"))
            self.assertIn("text/event-stream", description["paths"]["/api/v1/stream"]["get"]["responses"]["200"]["content"])
            wanted, name = {"snapshot", "event"}, ""
            while wanted:
                field, _, value = answer.readline().decode().rstrip("\n").partition(": ")
                if field == "event":
                    name = value
                if field == "data" and name == "event":
                    documents.check(json.loads(value), "event_line")
                if field == "data" and name == "snapshot":
                    envelope = {"schema": "ration.snapshot/1", "time": "", "host": "", "source": "sim", "warnings": [], "data": json.loads(value)}
                    documents.check(envelope)
                if field == "data":
                    wanted.discard(name)
            connection.close()

    def test_files_of_the_dashboard_are_as_described(self):
        description = self.description()
        paths = re.findall(r'(?:src|href)="(/[^"]+)"', scene.raw("GET", "/")[2])
        self.assertGreater(len(paths), 1)
        for path in paths:
            status, headers, content = scene.raw("GET", path)
            self.held_against(description, "GET", path, status, headers, content)
            self.assertEqual((status, scene.raw("GET", path, **{"If-None-Match": headers["ETag"]})[0]), (200, 304))

    def test_what_is_not_known_is_null_and_not_a_number(self):
        tenants = {tenant["tenant"]: tenant["accounts"][0] for tenant in scene.get("/api/v1/tenants")["data"]}
        self.assertEqual((tenants["nlp"]["limit_bytes"], tenants["vision"]["limit_bytes"]), (12 * GIB, None))
        recommended = scene.get("/api/v1/recommendations/train")["data"]
        self.assertEqual((recommended["enough"], recommended["guarantee_bytes"]), (False, None))

    def test_one_of_them_is_its_row_of_all(self):
        def rows(path):
            return [{key: value for key, value in row.items() if not key.startswith("idle_")} for row in scene.get(path)["data"]]
        workloads = rows("/api/v1/workloads")
        self.assertEqual(rows("/api/v1/workloads/train"), [row for row in workloads if row["workload"] == "train"])
        self.assertEqual([row["gpu"] for row in rows("/api/v1/devices/1")], [1])
        self.assertEqual([row["tenant"] for row in rows("/api/v1/tenants/nlp")], ["nlp"])

    def test_the_snapshot_names_the_newest_event(self):
        before = scene.get("/api/v1/snapshot")["data"]["last_event"]
        self.assertEqual(scene.ration("trim", "serve").returncode, 0)
        newest = until(lambda: [event for event in scene.events("trimmed") if event["id"] > before], "the event of the trim")[-1]["id"]
        until(lambda: scene.get("/api/v1/snapshot")["data"]["last_event"] >= newest, "the snapshot that names it")
        until(lambda: scene.get("/api/v1/snapshot")["data"]["last_event"] == scene.get("/api/v1/events")["data"][-1]["id"], "no newer one than there is")

    def test_who_may_do_what_is_as_described(self):
        description = self.description()
        whos = set()
        for template, operations in description["paths"].items():
            for method, operation in operations.items():
                who = operation["x-who"]
                whos.add(who)
                path = template.format(name="nlp" if "tenants" in template else "train", id=scene.denial if "denials" in template else "q-1", period=scene.month, workload="train", pid=scene.pid, gpu="0", asset="favicon.svg", path="index.html")
                if who == "anyone" or template.endswith("/leases/{id}"):
                    continue
                with self.subTest(method=method, path=path):
                    body = {"limit": "1GiB"} if method == "patch" else {"limit": "1GiB", "folder": "/", "bytes": 1} if method in ("post", "put") else None
                    status, problem = scene.ask(method.upper(), path, body, tcp=True)
                    self.assertEqual(status, 403, problem)
                    self.assertEqual(problem["id"], "E1523" if who == "anyone on the socket" else "E1502")
                    if who != "anyone on the socket":  # the token is the key that is described
                        self.assertNotEqual(scene.ask(method.upper(), path, body, tcp=True, Authorization="Bearer " + scene.token)[0], 403)
        self.assertEqual(whos, {"anyone", "user or operator", "owner or operator", "operator", "anyone on the socket"})
        self.assertEqual(scene.ask("GET", "/api/v1/session", tcp=True, Authorization="Bearer wrong")[0], 401)

    def test_every_problem_that_is_described_is_explained(self):
        named = set(re.findall(r"E\d{4}", json.dumps(self.description())))
        self.assertGreater(len(named), 10)
        for error in sorted(named):
            self.assertEqual(scene.ration("help", error).returncode, 0, error)

    def test_examples_are_requests_that_are_understood(self):
        for template, operations in self.description()["paths"].items():
            for method, operation in operations.items():
                content = operation.get("requestBody", {}).get("content", {}).get("application/json")
                if content is None:
                    continue
                jsonschema.Draft202012Validator(documents.closed(content["schema"])).validate(content["example"])

    def test_the_same_document_lies_at_both_places_and_keeps_its_tag(self):
        first, second = (scene.raw("GET", place) for place in ("/openapi.json", "/api/v1/openapi.json"))
        self.assertEqual((first[2], first[1]["ETag"]), (second[2], second[1]["ETag"]))
        self.assertEqual(scene.raw("GET", "/openapi.json", **{"If-None-Match": first[1]["ETag"]})[0], 304)

    def test_the_description_is_openapi(self):
        python = SOURCE / "build/openapi/bin/python"
        if not python.exists():
            self.skipTest("openapi-spec-validator is not there (./dev test installs it)")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(self.description(), file)
            file.flush()
            done = subprocess.run([python, "-m", "openapi_spec_validator", file.name], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
