#!/usr/bin/env python3
"""The dashboard's own tests (web/test: types, logic, Chromium) against a real rationd with real workloads on a simulated GPU.

    dashboard_test.py                    all of it; `dashboard_test.py flows` only files with that in their name
    dashboard_test.py start | stop | deny NAME     what those tests do to the daemon, in the folder DASHBOARD_FOLDER
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node_client import BIN, SOURCE, environment_in, until  # noqa: E402

NODE = "--sim=A100-40:40GiB*2"
CONFIGURATION = """
[daemon]
sample = "200ms"
sample_idle = "200ms"
[[tenant]]
name = "nlp"
limit = "24GiB"
guarantee = "2GiB"
[[tenant]]
name = "vision"
limit = "16GiB"
[[tenant]]
name = "jup"
[[tenant]]
name = "quokka"
"""
EVERYBODY = '[http]\nanonymous = "all"\n'
# Name, tenant, GPU, limit, MiB held. The first is denied memory before the tests begin; the limit of the last is moved, as the other tenant of its GPU has a guarantee.
WORKLOADS = (("serve", "vision", 0, "6GiB", 4096), ("train", "nlp", 0, "16GiB", 8192), ("kernel", "jup", 0, "5GiB", 1024), ("eval", "nlp", 1, "4GiB", 2048),
             ("zorilla", "quokka", 1, "2GiB", 1024), ("sweep", "jup", 1, "40GiB", 1024))
DENIED = 10240  # MiB: more than the limit of who asks, less than its tenant and the card have left
WAITED_FOR = "36GiB"
# Words that stand in nothing but names: the workload's and its tenant's, which is in its label, too.
NAMES = ("zorilla", "quokka")


class Node:
    """A daemon and its workloads in a folder; a pid of the daemon and a port that stay in files, so that several processes can act on it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = environment_in(self.folder, DASHBOARD_FOLDER=str(folder))
        self.programs = []

    def start(self):
        port = (self.folder / "port").read_text() if (self.folder / "port").exists() else "0"
        log = self.folder / "daemon.log"
        with open(log, "w") as output:
            daemon = subprocess.Popen([BIN / "rationd", NODE, "--state", self.folder / "state", "--listen", f"127.0.0.1:{port}"], env=self.environment,
                                      stdout=output, stderr=output, start_new_session=True)
        until(lambda: "the token from" in log.read_text() or daemon.poll() is not None, "the daemon is ready")
        if daemon.poll() is not None:
            sys.exit(log.read_text())
        (self.folder / "pid").write_text(str(daemon.pid))
        (self.folder / "port").write_text(log.read_text().split("http://127.0.0.1:")[1].split(" ")[0])

    def link(self):
        return re.search(r"http://\S+token=\w+", (self.folder / "daemon.log").read_text()).group()

    def stop(self):
        pid = int((self.folder / "pid").read_text())
        os.kill(pid, signal.SIGKILL)

        def gone():
            try:
                return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0] == "Z"
            except OSError:
                return True
        until(gone, "the daemon's end")

    def run(self, name, tenant, gpu, limit, mib):
        orders = self.folder / f"{name}.orders"
        os.mkfifo(orders)
        with open(self.folder / f"{name}.log", "w") as output:
            self.programs.append(subprocess.Popen(
                [BIN / "ration", "run", NODE, "--name", name, "--tenant", tenant, "--gpu", str(gpu), "--limit", limit, "--label", "team=" + tenant, "--",
                 BIN / "ration-workload", "obey"], env=self.environment, stdin=os.open(orders, os.O_RDWR), stdout=output, stderr=output))
        self.order(name, f"take {mib}")

    def order(self, name, text):
        """Told to the workload, and obeyed when this returns."""
        log = self.folder / f"{name}.log"
        before = log.read_text().count("\n")
        with open(self.folder / f"{name}.orders", "w") as orders:
            orders.write(text + "\n")
        until(lambda: log.read_text().count("\n") > before, f"{name} does '{text}'")

    def deny(self, name):
        self.order(name, f"take {DENIED}")

    def wait_for_room(self):
        """Somebody who wants more than is free, and waits for it."""
        self.programs.append(subprocess.Popen(
            [BIN / "ration", "run", NODE, "--wait", "1h", "--name", "big", "--tenant", "jup", "--gpu", "0", "--guarantee", WAITED_FOR, "--limit", WAITED_FOR, "--", BIN / "ration-workload", "obey"],
            env=self.environment, stdout=subprocess.DEVNULL, stderr=open(self.folder / "big.log", "w")))

    def record(self):
        """Two recordings that the daemon shows; and of the first the page as one file, and what ration inspect says."""
        for name, size in (("train", 512), ("after", 1024)):
            file = self.folder / "state/recordings" / f"{name}.rec"
            subprocess.run([BIN / "ration", "record", "-o", file, NODE, "--limit", "6GiB", "--gpu", "1", "--sites", "native", "--", BIN / "ration-workload", "replay",
                            SOURCE / f"share/ration/traces/medium_{size}_inference.csv"], env=self.environment, check=True, capture_output=True)
        for form in ("html", "json"):
            with open(self.folder / f"train.{form}", "w") as out:
                subprocess.run([BIN / "ration", "inspect", self.folder / "state/recordings/train.rec", "-o", form], stdout=out, check=True)

    def outsider(self):
        environment = dict(self.environment, LD_LIBRARY_PATH=str(BIN.parent / "sim"), RATION_SIM=NODE[6:])
        self.programs.append(subprocess.Popen([BIN / "ration-workload", "hold", "1GiB"], env=environment, stdout=subprocess.PIPE, text=True))
        self.programs[-1].stdout.readline()


def reason_to_skip():
    if not (SOURCE / "web/node_modules/playwright-core").exists() or not shutil.which("node"):
        return "the dashboard's packages are not there (Node.js 18 or newer, npm, a network)"
    if not os.path.exists(os.environ.get("CHROMIUM", "/usr/bin/chromium")):
        return "there is no Chromium (apt-get install chromium)"
    return None


def main(only):
    if reason := reason_to_skip():
        print("skipped:", reason)
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        node = Node(folder)
        (node.folder / "ration.toml").write_text(CONFIGURATION + EVERYBODY)
        node.start()
        try:
            for workload in WORKLOADS:
                node.run(*workload)
            node.record()
            node.outsider()
            node.wait_for_room()
            for name in ("serve", "serve", NAMES[0]):
                node.deny(name)
            myself = f"'{sys.executable}' '{pathlib.Path(__file__).resolve()}'"
            environment = dict(node.environment, HOME=os.environ.get("HOME", folder), RATION_WEB_URL="http://127.0.0.1:" + (node.folder / "port").read_text(),
                               RATION_WEB_TOKEN=(node.folder / "state/token").read_text().strip(), RATION_WEB_STOP=f"{myself} stop", RATION_WEB_LINK=node.link(),
                               RATION_WEB_START=f"{myself} start", RATION_WEB_DENY=f'{myself} deny "$1"',
                               RATION_WEB_PAGE=str(node.folder / "train.html"), RATION_WEB_INSPECTION=str(node.folder / "train.json"))

            def tests(anonymous, only):
                return subprocess.run(["node", "test/run.mjs", *only], cwd=SOURCE / "web",
                                      env=dict(environment, RATION_WEB_ANONYMOUS=anonymous, RATION_WEB_NAMES=",".join(NAMES))).returncode
            failed = tests("all", only)
            if not failed and (not only or "totals" in only):
                node.stop()
                (node.folder / "ration.toml").write_text(CONFIGURATION)
                node.start()
                failed = tests("totals", ["totals"])
            return failed
        finally:
            for program in node.programs:
                program.terminate()
                program.wait()
            node.stop()


if __name__ == "__main__":
    if os.environ.get("DASHBOARD_FOLDER"):
        there = Node(os.environ["DASHBOARD_FOLDER"])
        {"start": there.start, "stop": there.stop, "deny": there.deny}[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
