#!/usr/bin/env python3
"""Jobs of a real Slurm under a limit by one option, on simulated cards: two nodes of this machine, each with a daemon of its own."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from engine_case import BUILD, GIB, MIB, SOURCE, environment_in, until  # noqa: E402
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster import ACCOUNTING, GPU_MIB, NODES, PROGRAMS, Cluster, in_own_mounts, missing  # noqa: E402
from node_client import BIN, UnixConnection  # noqa: E402

PLUGIN = BUILD / "slurm/ration_spank.so"
NOBODY = 65534
WORKLOAD = str(BIN / "ration-workload")
CARD = "H200:141GiB:context=64MiB"


class Node:
    """What one machine of the cluster has: /run/node is its own, and in it ration's folder, its cards and its daemon."""

    def __init__(self, folder, name, gpus):
        self.name, self.folder = name, pathlib.Path(folder) / name
        self.sim = "--sim=" + ",".join([CARD] * gpus)
        for inside in ("ration", "sim", "state"):
            (self.folder / inside).mkdir(parents=True, mode=0o755)
        (self.folder / "sim").chmod(0o777)
        self.environment = environment_in("/run/node/ration", RATION_STATE_DIR="/run/node/state")
        self.environment.update(RATION_SIM_DIR="/run/node/sim", HOME="/root")
        (self.folder / "ration/ration.toml").write_text('[daemon]\nsample = "100ms"\nsample_idle = "100ms"\n')
        variables = "\n".join(f"export {key}={value}" for key, value in self.environment.items() if key.startswith("RATION_"))
        hook = self.folder / "hook"
        hook.write_text(f"#!/bin/sh\n{variables}\naction=$1; shift\nexec {BIN}/ration $action {self.sim} \"$@\"\n")
        hook.chmod(0o755)
        (self.folder / "ready").unlink(missing_ok=True)
        script = f"mkdir -p /run/node && mount --bind {self.folder} /run/node && touch /run/node/ready && exec sleep infinity"
        self.space = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-c", script])
        until((self.folder / "ready").exists, "the node's mounts")
        self.daemon = None
        self.begin()
        # Programs of every user share the simulated cards, as they share real ones.
        done = self.ration("run", "--limit", "1GiB", "--", "true")
        assert done.returncode == 0, done.stderr
        for place, _, files in os.walk(self.folder / "sim"):
            for path in [place, *(os.path.join(place, name) for name in files)]:
                os.chmod(path, 0o777)

    def inside(self, *words):
        return ["nsenter", "-t", str(self.space.pid), "-m", *map(str, words)]

    def begin(self):
        with open(self.folder / "rationd.log", "a") as log:
            self.daemon = subprocess.Popen(self.inside(BIN / "rationd", self.sim, "--state", "/run/node/state", "--listen", "127.0.0.1:0"),
                                           env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.daemon.stdout.readline()
        assert "ration" in line, (self.folder / "rationd.log").read_text()

    def end(self, how=signal.SIGTERM):
        if self.daemon is not None:
            self.daemon.send_signal(how)
            self.daemon.wait()
            self.daemon.stdout.close()
            self.daemon = None

    def close(self):
        self.end()
        self.space.kill()
        self.space.wait()

    def ration(self, *words, **options):
        words = [words[0], self.sim, *words[1:]]
        return subprocess.run(self.inside(BIN / "ration", *words), env=self.environment, capture_output=True, text=True, timeout=120, **options)

    def get(self, path):
        connection = UnixConnection(self.folder / "ration/ration.sock")
        connection.request("GET", path)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer["data"]

    def rows(self):
        return {row["workload"]: row for row in self.get("/api/v1/workloads") if row["governed"]}

    def truth(self):
        told = subprocess.run(self.inside(BIN / "ration-sim-truth", "--json"), env=dict(self.environment, RATION_SIM=self.sim.removeprefix("--sim=")),
                              capture_output=True, text=True, check=True)
        return json.loads(told.stdout)["devices"]

    def left(self):
        """Books of jobs that count as running, and what hooks keep."""
        return sorted(path.name for inside in ("granted", "making", "slurm") for path in (self.folder / "ration" / inside).glob("*"))


class SlurmCase(unittest.TestCase):
    accounting = False

    @classmethod
    def setUpClass(cls):
        lacking = missing(PROGRAMS + (ACCOUNTING if cls.accounting else ()))
        if lacking:
            raise unittest.SkipTest(f"{', '.join(lacking)} not installed: ./dev test slurm")
        if not PLUGIN.exists():
            raise unittest.SkipTest("the plugin was not built: libslurm-dev")
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.folder.chmod(0o755)
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.nodes = {}
        for name, gpus in NODES.items():
            cls.nodes[name] = node = Node(cls.folder, name, gpus)
            cls.addClassCleanup(node.close)
        cls.cluster = Cluster(cls.folder / "slurm", f"{PLUGIN} ration=/run/node/hook", {name: node.space for name, node in cls.nodes.items()}, cls.accounting)
        cls.addClassCleanup(cls.cluster.end)

    def run_as(self, *words, **options):
        """As a user of the cluster."""
        return self.cluster.call(*words, user=NOBODY, group=NOBODY, extra_groups=[], **options)

    def srun(self, *words, **options):
        return self.run_as("srun", *words, **options)

    def sbatch(self, script, *options, **more):
        done = self.run_as("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", script, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.addCleanup(self.cluster.call, "scancel", job)
        return job

    def states(self):
        lines = self.cluster.call("squeue", "-h", "-o", "%i %T %N").stdout.splitlines()
        return {line.split()[0]: line.split()[1:] for line in lines}

    def show(self, job):
        return self.cluster.call("scontrol", "-d", "show", "job", job).stdout

    def nothing_left(self):
        until(lambda: not any(node.left() or node.rows() for node in self.nodes.values()), "nothing is left")


class Jobs(SlurmCase):
    def tearDown(self):
        self.cluster.call("scancel", "--user=nobody")
        self.nothing_left()

    def test_what_is_asked_for_is_the_total(self):
        done = self.srun("--gpu-mem=4GiB", WORKLOAD, "total")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(4 * GIB)), done.stderr + self.cluster.logs())


if __name__ == "__main__":
    if os.getuid() != 0 or subprocess.run(["unshare", "-m", "-u", "true"], capture_output=True).returncode != 0:
        print("skipped: this test needs root and mounts of its own")
    elif "RATION_TEST_IN_OWN_MOUNTS" not in os.environ:
        os.environ["RATION_TEST_IN_OWN_MOUNTS"] = "1"
        in_own_mounts([sys.executable, *sys.argv])
    else:
        unittest.main(verbosity=2)
