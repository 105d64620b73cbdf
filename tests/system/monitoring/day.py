"""A day of two nodes on which everything goes wrong that share/ration/prometheus has an alert for, and the real Prometheus that watches them. Used by prometheus_test.py.

The rules are the shipped ones with every duration divided by FASTER: a minute is three quarters of a second of the test."""
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from book_layout import OFFSET  # noqa: E402
from limits.program import Program  # noqa: E402
from node_client import BIN, GIB, SOURCE, UnixConnection, environment_in, free_ports  # noqa: E402
import waiting  # noqa: E402

waiting.PATIENCE *= 3  # a forecast needs a minute of growth
until = waiting.until

FASTER = 80
SHARE = SOURCE / "share/ration"
RULES = [SHARE / "prometheus" / name for name in ("recording.yml", "alerts.yml")]
PROMETHEUS = next((path for path in (pathlib.Path("/usr/bin/prometheus"), SOURCE / "build/prometheus/usr/bin/prometheus") if path.exists()), None)
# The second node's GPU reports its memory to the driver alone, which is asked anew each time and answers slowly.
NODES = {"one": '[[device]]\nmodel = "T4"\ncontext = "64MiB"\nutilisation = 40\nreserved = "128MiB"\n[[device]]\nmodel = "T4"\ncontext = "64MiB"\norphaned = "1GiB"\n',
         "two": '[[device]]\nmodel = "GB10"\nmemory = "24GiB"\ncontext = "64MiB"\n'}
# On the first node, where nothing is guaranteed to a tenant, a leak can fill a GPU.
TENANTS = {"one": "", "two": '[[tenant]]\nname = "absent"\nlimit = "12GiB"\nguarantee = "64MiB"\n'}
SLOW = {"one": {}, "two": {"RATION_SIM_LATENCY": "cuDeviceTotalMem=300ms"}}
POD = ["--label", "engine=kubernetes", "--label", "container=research/train-0/main"]  # as the hook of a pod's container says
# A pool that keeps what is freed, and a function that ration does not know.
CACHES = """start(); own = stream()
assert cuda.cuMemPoolSetAttribute(default_pool(0), 4, byref(c_uint64(2**64 - 1))) == 0
answer = [take_async(512, own)[0], cuda.cuMemFreeAsync(c_uint64(take_async(256, own)[1]), own), cuda.cuStreamSynchronize(own), pin(64)[0]]"""
CALLS_UNLISTED = """start(); function, status, address = c_void_p(), c_int(), c_uint64()
answer = [cuda.cuGetProcAddress_v2(b"cuMemAllocUnlisted", byref(function), 99000, c_uint64(1), byref(status)),
          ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t)(function.value)(ctypes.addressof(address), 1 << 20)]"""


def shortened(rules):
    """The text of rules with their durations divided; names such as increase10m stay."""
    milliseconds = {"m": 60_000 // FASTER, "h": 3_600_000 // FASTER}
    return re.sub(r"(for: |offset |\[)(\d+)([mh])\b", lambda found: f"{found[1]}{int(found[2]) * milliseconds[found[3]]}ms", rules)


class Node:
    """A rationd on a simulated node of its own."""

    def __init__(self, day, name, port):
        self.name, self.port = name, port
        self.folder = day.folder / name
        self.devices = self.folder / "dev"
        self.devices.mkdir(parents=True)
        self.plug()
        description = self.folder / "node.toml"
        description.write_text(f'device_nodes = "{self.devices}"\n{NODES[name]}')
        self.sim = f"--sim={description}"
        (self.folder / "ration.toml").write_text('[[tenant]]\nname = "nlp"\n[[tenant]]\nname = "vision"\n[[tenant]]\nname = "lab"\n' + TENANTS[name])
        self.environment = environment_in(self.folder, RATION_SIM=str(description))
        self.state = self.folder / "state"
        self.state.mkdir(mode=0o700)
        if day.token.exists():
            shutil.copy(day.token, self.state / "token")
        self.begin()

    def plug(self):
        for gpu in range(NODES[self.name].count("[[device]]")):
            (self.devices / f"nvidia{gpu}").touch()

    def begin(self):
        self.log = open(self.folder / "log", "a")
        self.daemon = subprocess.Popen([BIN / "rationd", self.sim, "--state", self.state, "--listen", f"127.0.0.1:{self.port}"],
                                       env=dict(self.environment, **SLOW[self.name]), stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.daemon.stdout.readline()
        assert "http://" in line, (self.folder / "log").read_text()

    def end(self, how=signal.SIGTERM):
        self.daemon.send_signal(how)
        self.daemon.wait()
        self.daemon.stdout.close()
        self.log.close()

    def ration(self, *words):
        return subprocess.run([BIN / "ration", *map(str, words)], env=self.environment, capture_output=True, text=True, timeout=120)


class Day:
    """Use as a context: it has ended, with everything that it started, when the context ends."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.token = self.folder / "one/state/token"
        self.started, self.nodes, self.began = [], {}, None
        self.said, self.done = {}, {}
        try:
            ports = free_ports(3)
            for name, port in zip(NODES, ports):
                self.nodes[name] = Node(self, name, port)
            self.one, self.two = self.nodes.values()
            self.port = ports[-1]
            self.morning()
            self.watch()
            self.quiet()
            self.trouble()
            self.answers()
            self.evening()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.end(self.started)
        for node in self.nodes.values():
            node.end()
        shutil.rmtree(self.folder)

    # ------------------------------------------------------------------------------------------------------ the programs

    def start(self, node, *words, **more):
        process = subprocess.Popen([*map(str, words)], env=dict(node.environment, **more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def end(self, processes):
        for process in processes:
            process.terminate()
        for process in processes:
            process.communicate()

    def run(self, node, name, tenant, gpu, *words):
        """A workload: the words are options, `--` and the program's."""
        return self.start(node, BIN / "ration", "run", node.sim, "--name", name, "--tenant", tenant, "--gpu", gpu, *words)

    def hold(self, node, name, tenant, gpu, size, *options):
        return self.holding(self.run(node, name, tenant, gpu, *options, "--", BIN / "ration-workload", "hold", size))

    def holding(self, process):
        line = process.stdout.readline()
        assert "holding" in line, process.stderr.read()
        return process

    def denied(self, name, size, *options):
        process = self.run(self.one, name, "vision", 0, *options, "--", BIN / "ration-workload", "hold", size)
        _, error = process.communicate()
        assert "denied" in error, error
        self.started.remove(process)

    def program(self, node, name, tenant, gpu, lines, *options):
        program = Program(node.environment, [*map(str, [BIN / "ration", "run", node.sim, "--name", name, "--tenant", tenant, "--gpu", gpu, *options, "--"])])
        self.started.append(program.process)
        answers = program.ask(lines)
        assert not any(answers), answers
        return program

    # ------------------------------------------------------------------------------------------------------- Prometheus

    def watch(self):
        """Starts Prometheus as docs/metrics.md has it."""
        (settings,) = re.findall(r"^```yaml\n(scrape_configs:.*?)^```$", (SOURCE / "docs/metrics.md").read_text(), flags=re.M | re.S)
        for rules in RULES:
            (self.folder / rules.name).write_text(shortened(rules.read_text()))
            settings = settings.replace(f"/usr/share/ration/prometheus/{rules.name}", str(self.folder / rules.name))
        for written, here in (('["127.0.0.1:7077"]', json.dumps([f"127.0.0.1:{node.port}" for node in self.nodes.values()])), ("/var/lib/ration/token", str(self.token))):
            assert written in settings, settings
            settings = settings.replace(written, here)
        (self.folder / "prometheus.yml").write_text(f"global: {{scrape_interval: 500ms, evaluation_interval: 250ms}}\n{settings}")
        log = open(self.folder / "prometheus.log", "w")
        self.prometheus = subprocess.Popen([PROMETHEUS, f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data", f"--web.listen-address=127.0.0.1:{self.port}"],
                                           stdout=log, stderr=log)
        log.close()
        self.started.append(self.prometheus)

    def ask(self, path, **parameters):
        """Prometheus' answer; absent until it serves."""
        try:
            return json.load(urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"))["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it has not read its data yet
                return None
            raise AssertionError(f"{parameters}: {error.code} {error.read().decode()}")
        except urllib.error.URLError:
            assert self.prometheus.poll() is None, (self.folder / "prometheus.log").read_text()
            return None

    def query(self, expression):
        return (self.ask("query", query=expression) or {"result": []})["result"]

    def over_the_day(self, expression):
        """Every series that the query has at some time of the day, with its values: at each evaluation of the rules, because some alerts are over with the next."""
        return self.ask("query_range", query=expression, start=self.began, end=time.time(), step="250ms")["result"]

    def rules(self):
        return [rule for group in (self.ask("rules") or {"groups": []})["groups"] for rule in group["rules"]]

    # ----------------------------------------------------------------------------------------------------------- the day

    def morning(self):
        """All is well; but a leak begins, on a GPU that it may fill: for a minute nobody can know."""
        leak = self.run(self.one, "leak", "vision", 1, "--limit", "14GiB", "--", BIN / "ration-workload", "steps", "1GiB:1s", *["+64MiB:1s"] * 150)
        self.hold(self.one, "train", "nlp", 0, "2GiB", "--limit", "4GiB", "--guarantee", "2GiB", *POD)
        self.hold(self.two, "train", "nlp", 0, "2GiB", "--limit", "4GiB", "--guarantee", "3GiB")
        self.hold(self.one, "serve", "vision", 0, "1GiB", "--limit", "2GiB")
        self.caches = self.program(self.one, "caches", "nlp", 1, CACHES, "--limit", "2GiB", "--host-limit", "128MiB")
        assert leak.poll() is None, leak.stderr.read()

    def quiet(self):
        """Prometheus has seen both nodes, and evaluated every rule, for longer than most alerts take to fire."""
        until(lambda: len(self.query('ration_build_info and on (job, instance) up{job="ration"} == 1')) == 2, "both nodes are scraped")
        until(lambda: (rules := self.rules()) and all(rule["health"] == "ok" for rule in rules), "all rules are evaluated")
        until(self.has_been_silent, "no alert for six minutes while all is well (the second daemon is slow to start)")
        self.silent_until = time.time()

    def has_been_silent(self):
        """Whether no alert, not even a pending one, has shown for six minutes; they begin anew with each that does."""
        if self.began is None or self.query("ALERTS"):
            self.began = time.time()
        return self.query('timestamp(ration_queue_length{job="ration"}) > %f' % (self.began + 6 * 60 / FASTER))

    def trouble(self):
        self.follower = UnixConnection(self.one.folder / "ration.sock")
        self.follower.request("GET", "/api/v1/stream")
        changed = self.one.ration("set", "caches", "--limit", "1800MiB", self.one.sim)
        assert changed.returncode == 0, changed.stderr
        trim = self.start(self.one, BIN / "ration", "trim", "caches")
        while trim.poll() is None:  # the program gives back when it next waits for its GPU
            assert self.caches.ask("answer = cuda.cuStreamSynchronize(own)") == 0
        # Through the queue, and in it, where they stay. While one waits the daemon looks often, which on the second node is slow.
        self.hold(self.two, "queued", "nlp", 0, "64MiB", "--wait", "--limit", "256MiB")
        self.run(self.one, "big", "nlp", 0, "--wait", "--limit", "14GiB", "--", "true")
        self.run(self.two, "big", "nlp", 0, "--wait", "--limit", "23GiB", "--", "true")
        self.denied("greedy", "2GiB", "--limit", "1GiB")
        self.hear("RationDenied")
        with open(next((self.one.folder / "books").glob("serve.*.book")), "r+b") as book:
            book.seek(OFFSET["accounts[0].limit"])
            book.write(struct.pack("<Q", 12 * GIB))
        self.hear("RationBookAltered")
        # A process outside of ration fills the first GPU: requests that their limits allow are denied after a wait, or wait.
        self.hold(self.one, "nearly", "lab", 0, "900MiB", "--limit", "1GiB")
        self.holding(self.start(self.one, BIN / "ration-workload", "hold", "10GiB", LD_LIBRARY_PATH=str(BIN.parent / "sim")))
        self.denied("patient", "1GiB", "--limit", "2GiB", "--on-deny", "wait:200ms")
        self.run(self.one, "waits", "vision", 0, "--limit", "2GiB", "--on-deny", "wait:10m", "--", BIN / "ration-workload", "hold", "1GiB")
        self.program(self.one, "later", "nlp", 1, CALLS_UNLISTED, "--limit", "256MiB")
        configuration = self.two.folder / "ration.toml"
        good = configuration.read_text()
        configuration.write_text(good + "[mistake]\n")
        self.two.ration("config", "reload")
        self.hear("RationConfigurationRejected")
        configuration.write_text(good)
        # The second daemon is killed, and when it comes back there is no GPU.
        self.hear("RationLooksCostTooMuch")
        self.two.end(signal.SIGKILL)
        self.hear("RationDaemonDown")
        for node in self.two.devices.iterdir():
            node.unlink()
        self.two.begin()
        for alert in [rule["name"] for rule in self.rules() if rule["type"] == "alerting"]:
            self.hear(alert)

    def answers(self):
        """Does what each alert says."""
        for alert, (annotations, node) in self.said.items():
            program, *words = shlex.split(annotations["command"])
            if program == "ration":  # others are of the system, whose these daemons are not
                self.done[alert] = node.ration(*words)

    def evening(self):
        """All is well again."""
        self.end([process for process in self.started if process is not self.prometheus])
        self.two.end()
        self.two.plug()
        self.two.begin()
        until(lambda: self.query('count(up{job="ration"} == 1) == 2') and not self.query("ALERTS"), "all alerts are over")

    def hear(self, name):
        """Waits until an alert fires. Notes what each that fires says, and the node that it is about: some are soon over."""
        def heard():
            for alert in (self.ask("alerts") or {"alerts": []})["alerts"]:
                if alert["state"] == "firing":
                    node = next(node for node in self.nodes.values() if alert["labels"]["instance"] == f"127.0.0.1:{node.port}")
                    self.said.setdefault(alert["labels"]["alertname"], (alert["annotations"], node))
            return name in self.said
        until(heard, f"{name} fires")
