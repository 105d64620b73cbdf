"""A rationd of a test's own, in a folder of its own, and real workloads beside it. Used by every test of this folder."""
import json
import os
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from book_layout import OFFSET  # noqa: E402
from node_client import BIN, SOURCE, UnixConnection, environment_in, own_folder, until  # noqa: E402

NODE = "--sim=T4:16GiB:context=64MiB"
NOBODY = 65534


class Case(unittest.TestCase):
    pace = "100ms"  # from one look to the next that nobody asked for
    configuration = ""
    node = NODE
    program = BIN / "rationd"

    def setUp(self):
        self.folder = own_folder(self)
        (self.folder / "ration.toml").write_text(f'[daemon]\nsample = "{self.pace}"\nsample_idle = "{self.pace}"\n' + self.configuration)
        self.environment = environment_in(self.folder)
        self.daemon = None
        self.start()
        self.addCleanup(self.stop)

    # -------------------------------------------------------------------------------------------------------- the daemon

    def start(self, *options):
        self.daemon = subprocess.Popen([self.program, *self.node.split(), "--state", self.folder / "state", "--listen", "127.0.0.1:0", *options],
                                       env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = self.daemon.stdout.readline()
        self.assertIn("ration", first, self.daemon.stderr.read() if not first else "")
        self.port = int(first.split("http://127.0.0.1:")[1].split(" ")[0])

    def stop(self, how=signal.SIGTERM):
        if self.daemon is None:
            return
        self.daemon.send_signal(how)
        self.daemon.communicate()
        self.daemon = None

    def ask(self, method, path, body=None, **headers):
        connection = UnixConnection(self.folder / "ration.sock")
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json", **headers} if text else headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, json.loads(content) if content else None

    def get(self, path):
        status, answer = self.ask("GET", path)
        self.assertEqual(status, 200, answer)
        return answer["data"]

    def rows(self):
        return {row["workload"]: row for row in self.get("/api/v1/workloads")}

    def row(self, name):
        return self.until(lambda: self.rows().get(name), f"a row of {name}")

    def events(self, *types):
        # Events of the last look are stored before it ends; the question is answered from the database.
        return self.get("/api/v1/events?limit=1000" + ("&type=" + ",".join(types) if types else ""))

    def until(self, condition, what):
        return until(condition, what)

    def as_nobody(self, method, path, body=None):
        script = ("import json,sys;sys.path.insert(0,%r);import node_client as n;c=n.UnixConnection(%r);"
                  "c.request(%r,%r,%r,{'Content-Type':'application/json'});a=c.getresponse();print(a.status);print(a.read().decode())"
                  % (str(SOURCE / "tests/system"), str(self.folder / "ration.sock"), method, path, body))
        done = subprocess.run(["/usr/bin/python3", "-c", script], user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True,
                              env={"BUILD_BIN": "/", "SOURCE": "/", "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        status, text = done.stdout.split("\n", 1)
        return int(status), json.loads(text)

    # ------------------------------------------------------------------------------------------------------ the programs

    def ration(self, *arguments, **options):
        return subprocess.run([BIN / "ration", *map(str, arguments)], env=dict(self.environment, **options.pop("env", {})), capture_output=True,
                              text=True, timeout=120, **options)

    def holding(self, name, size, *options):
        process = subprocess.Popen([BIN / "ration", "run", *self.node.split(), "--name", name, *options, "--", BIN / "ration-workload", "hold", size],
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        line = process.stdout.readline()
        self.assertIn("holding", line, process.stderr.read() if not line else "")
        return process

    def book(self, name):
        return next((self.folder / "books").glob(name + ".*.book"))

    def forge_held(self, name, size):
        """As the workload's first process could write: what it holds, and what all of its processes hold."""
        with open(self.book(name), "r+b") as book:
            for field in ("slots[0].parts[0].all.held", "accounts[0].usage"):
                book.seek(OFFSET[field])
                book.write(struct.pack("<Q", size))


class ClockCase(Case):
    """The daemon and the programs have a time of day that the test sets."""

    def start(self, *options):
        self.environment |= {"LD_PRELOAD": os.environ["JUMPING_CLOCK_LIBRARY"], "JUMPING_CLOCK": str(self.folder / "clock")}
        if not (self.folder / "clock").exists():
            self.set_clock(0)
        super().start(*options)

    def set_clock(self, seconds):
        """That many ahead of the real one."""
        with open(self.folder / "clock", "r+b" if (self.folder / "clock").exists() else "wb") as file:
            file.write(struct.pack("<q", seconds))
