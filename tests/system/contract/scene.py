"""A daemon on two simulated GPUs with everything that its answers can be about: tenants of a configuration, workloads, a
refusal, one after a wait, a process outside, a lease that was granted and one that waits, a limit that was changed, a book
that was altered, a function that ration does not know, two recordings, a closed month. Used by the tests of this folder; made once for all of their cases."""
import datetime
import http.client
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from book_layout import OFFSET  # noqa: E402
from node_client import BIN, GIB, PATIENCE, SOURCE, UnixConnection, environment_in, until  # noqa: E402

SCHEMAS = SOURCE / "share/ration/schema"
NODE = "--sim=T4:16GiB:context=64MiB*2"
CONFIGURATION = """
[daemon]
sample = "100ms"
sample_idle = "100ms"
metrics_processes = true
[[tenant]]
name = "nlp"
limit = "12GiB"
guarantee = "2GiB"
priority = 10
[[tenant]]
name = "vision"
[report]
currency = "EUR"
"""


class Scene:
    def __init__(self):
        self.place = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.place.name)
        (self.folder / "ration.toml").write_text(CONFIGURATION + f'[containers]\ncdi = "{self.folder}/cdi"\n')
        self.environment = environment_in(self.folder, RATION_SIM=NODE[6:])
        self.processes = []
        try:
            self.begin()
        except BaseException:
            self.end()
            raise

    def begin(self):
        self.daemon = self.started([BIN / "rationd", NODE, "--state", self.folder / "state", "--listen", "127.0.0.1:0"])
        self.port = int(self.daemon.stdout.readline().split("http://127.0.0.1:")[1].split(" ")[0])
        self.once = next(line for line in self.daemon.stdout if "?token=" in line).split("?token=")[1].split(" ")[0]
        self.token = (self.folder / "state/token").read_text().strip()
        self.holding("train", "2GiB", "--limit", "4GiB", "--guarantee", "1GiB", "--tenant", "nlp", "--label", "team=language",
                     "--label", "engine=kubernetes", "--label", "container=research/train-0/main")  # as the hook of a pod's container says
        self.holding("serve", "1GiB", "--limit", "2GiB", "--tenant", "vision", "--gpu", "1")
        # Refused at once, and refused after a wait.
        self.ration("run", NODE, "--gpu", "0", "--name", "greedy", "--limit", "1GiB", "--tenant", "vision", "--", BIN / "ration-workload", "hold", "2GiB")
        self.ration("run", NODE, "--gpu", "0", "--name", "patient", "--limit", "1GiB", "--tenant", "vision", "--on-deny", "wait:200ms", "--",
                    BIN / "ration-workload", "hold", "1000MiB")
        # Nobody's: a process that the guard never saw.
        outsider = self.started([BIN / "ration-workload", "hold", "1GiB"], LD_LIBRARY_PATH=str(BIN.parent / "sim"))
        outsider.stdout.readline()
        self.outsider = outsider.pid
        self.denial = until(lambda: self.events("denied"), "the denial")[0]["denial"]
        until(lambda: self.events("waited"), "the refusal after a wait")
        until(lambda: self.events("ungoverned"), "the process outside")
        # Through the queue, and in it.
        self.holding("queued", "1GiB", "--wait", "--limit", "4GiB", "--tenant", "vision", "--gpu", "1")
        self.waiter = self.started([BIN / "ration", "run", NODE, "--gpu", "0", "--wait", "--tenant", "nlp", "--limit", "11GiB", "--name", "big", "--", "true"])
        self.waiter.stderr.readline()
        self.lease = self.get("/api/v1/leases")["data"][0]["lease"]
        self.pid = next(row for row in self.get("/api/v1/workloads")["data"] if row["workload"] == "train")["processes"][0]["pid"]
        for recording in ("train.rec", "after.rec"):
            recorded = self.ration("record", "-o", self.folder / "state/recordings" / recording, NODE, "--limit", "4GiB", "--gpu", "1", "--", BIN / "ration-workload", "grow")
            assert recorded.returncode == 0, recorded.stderr
        trimmed = self.ration("trim", "serve")
        assert trimmed.returncode == 0, trimmed.stderr
        changed = self.ration("set", "train", "--limit", "5GiB", NODE)
        assert changed.returncode == 0, changed.stderr
        with open(next((self.folder / "books").glob("serve.*.book")), "r+b") as book:
            book.seek(OFFSET["accounts[0].limit"])
            book.write(struct.pack("<Q", 12 * GIB))
            book.seek(OFFSET["header.unlisted[0]"])
            book.write(struct.pack("<Q56s", 1, b"cuMemAllocUnlisted"))
            book.seek(OFFSET["header.unlisted_count"])
            book.write(struct.pack("<Q", 1))
        until(lambda: self.events("violation"), "the book that was altered")
        first = datetime.datetime.now(datetime.timezone.utc).date().replace(day=1)
        self.month = (first - datetime.timedelta(days=1)).strftime("%Y-%m")
        until(lambda: self.ask("POST", f"/api/v1/reports/periods/{self.month}:close", {})[0] in (200, 409), "a closed month")

    def end(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            process.communicate()
        self.place.cleanup()

    def started(self, command, **environment):
        process = subprocess.Popen(command, env=dict(self.environment, **environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def holding(self, name, size, *options):
        process = self.started([BIN / "ration", "run", NODE, "--name", name, *(() if "--gpu" in options else ("--gpu", "0")), *options, "--", BIN / "ration-workload", "hold", size])
        line = process.stdout.readline()
        assert "holding" in line, process.stderr.read()
        return process

    def ration(self, *arguments):
        return subprocess.run([BIN / "ration", *map(str, arguments)], env=self.environment, capture_output=True, text=True, timeout=120)

    def connection(self, tcp=False):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE) if tcp else UnixConnection(self.folder / "ration.sock")

    def raw(self, method, path, body=None, tcp=False, **headers):
        """Status, headers and text of an answer."""
        connection = self.connection(tcp)
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json", **headers} if text else headers)
        answer = connection.getresponse()
        content = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, content

    def ask(self, method, path, body=None, **options):
        status, _, content = self.raw(method, path, body, **options)
        return status, json.loads(content) if content else None

    def get(self, path):
        status, answer = self.ask("GET", path)
        assert status == 200, answer
        return answer

    def events(self, *types):
        return self.get("/api/v1/events?limit=1000&type=" + ",".join(types))["data"]
