"""A Kubernetes of one node with a simulated card of 16 GiB, rationd and ration-kubernetes on it, and an image to run."""
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
import unittest

import kubernetes_cluster
from cluster import LOGS, SOURCE, missing, run, until
from kubernetes_cluster import CLAIM, DRIVER, MANIFESTS, TEMPLATE, WORKLOAD, claiming_pod, pod  # noqa: F401: for the tests

sys.path.insert(0, str(SOURCE / "tests/system"))
from containers.engines import root_file_system  # noqa: E402
from node_client import BIN, GIB, MIB, UnixConnection  # noqa: E402

NAME, NODE = kubernetes_cluster.NODE, kubernetes_cluster.GovernedCluster.node
ADAPTER = kubernetes_cluster.program(kubernetes_cluster.ADAPTER)
SOCKET = "/run/ration/ration.sock"
KILLS = int(os.environ.get("RATION_TEST_KILLS", "1"))  # of each program, in one run


ON_CLUSTER = unittest.skipIf(missing(), f"{', '.join(missing())}: not here; ./dev test kubernetes makes it")


def pod_patch(name, container, **spec):
    """Of a DaemonSet of ration's: what its pods, and one container of them, have beside what the manifests say."""
    spec = {"terminationGracePeriodSeconds": 1, **spec, "containers": [{"imagePullPolicy": "Never", **container}]}
    return {"patch": json.dumps({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "ration-system"}, "spec": {"template": {"spec": spec}}})}


# No proxy brings the API server's service address to this node.
DRIVER_HERE = pod_patch("ration-kubernetes", {"name": "dra", "args": ["dra", "--gpu-kind", ""], "env": [
    {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"}, {"name": "KUBERNETES_SERVICE_PORT", "value": "26443"}]}, hostNetwork=True)


class GovernedCluster(kubernetes_cluster.GovernedCluster):
    @classmethod
    def of(cls, case, **options):
        """For all tests of a class, or for one of them."""
        shutil.rmtree(LOGS, ignore_errors=True)
        LOGS.mkdir(parents=True)
        cluster = cls(BIN / "ration", LOGS, **options)
        (case.addClassCleanup if isinstance(case, type) else case.addCleanup)(cluster.down)
        return cluster

    def up(self):
        self.begin()
        self.drive()
        self.apply(TEMPLATE)
        until(self.offered, "the node's GPU is offered")

    def begin(self, daemon=True):
        super().begin(root_file_system, daemon)

    def overlay(self, *resources, patches, images=("ration-kubernetes",)):
        """A folder for `kubectl apply -k` of manifests, of images that no registry has."""
        folder = self.folder / "overlay"
        folder.mkdir()
        shutil.copytree(MANIFESTS, folder / "base")
        self.import_adapter("1")
        (folder / "kustomization.yaml").write_text(json.dumps({
            "kind": "Kustomization", "resources": resources, "patches": patches,
            "images": [{"name": name, "newName": f"ration.test/{name}", "newTag": "1"} for name in images]}))
        return folder

    def import_adapter(self, version):
        """Puts the image of ration-kubernetes on the node, as kubernetes/Containerfile makes it."""
        os.makedirs("/tmp/adapter", exist_ok=True)
        shutil.copy(ADAPTER, "/tmp/adapter/ration-kubernetes")
        self.import_image("/tmp/adapter", f"ration.test/ration-kubernetes:{version}", ["/ration-kubernetes"])

    def install(self, folder):
        done = self.kubectl("apply", "-k", folder)
        assert done.returncode == 0, done.stderr

    def start_pod(self, case, name, *words, claim="four"):
        self.ask_for(case, name, *words, claim=claim)
        until(lambda: self.get("pod", name)["status"]["phase"] == "Running", lambda: self.kubectl("describe", "pod", name).stdout[-2000:])

    def ask_for(self, case, name, *words, claim="four", folders=(), **spec):
        self.apply(claiming_pod(name, words, claim, folders, **spec))
        case.addCleanup(self.kubectl, "delete", "pod", name, "--force", "--grace-period=0")

    def total_in(self, name):
        return self.kubectl("exec", name, "--", "ration-workload", "total").stdout.strip()

    def start_device_plugin(self):
        self.start(ADAPTER, "device-plugin", "--gpu-kind", "", name="device-plugin")

    def start_again(self, name):
        {"driver": self.start_driver, "device-plugin": self.start_device_plugin, "rationd": self.start_daemon, "kubelet": self.start_kubelet,
         "containerd": self.start_containerd}[name]()

    def kill_and_start(self, name):
        self.kill(name)
        self.start_again(name)

    def reboot(self, driver):
        """Of the node: all that it runs ends at once, and what it keeps in memory is gone."""
        parts = ("containerd", "rationd", driver, "kubelet")
        for name in parts:
            self.kill(name)
        run("pkill", "-KILL", "containerd-shim")
        self.end_containers()
        run("umount", "--recursive", "--lazy", "/run", check=True)
        run("mount", "-t", "tmpfs", "none", "/run", check=True)
        os.mkdir("/run/simulated")
        for name in parts:
            self.start_again(name)


class OnNode(unittest.TestCase):
    """Tests of a `cluster`. After each, nothing is left."""

    def tearDown(self):
        self.cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
        self.cluster.kubectl("delete", "resourceclaims", "--all", "--wait=false")
        until(lambda: not self.cluster.get("pods")["items"], "all pods are gone")
        until(lambda: self.left() == [], lambda: f"nothing is left: {self.left()}")

    def ask(self, path):
        with contextlib.closing(UnixConnection(SOCKET)) as connection:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())["data"]

    def left(self):
        """Claims, specifications, workloads and bytes."""
        return [*(claim["name"] for claim in self.ask("/api/v1/claims")), *(str(path) for path in pathlib.Path("/run/cdi").glob("ration-claim*")),
                *(row["workload"] for row in self.ask("/api/v1/workloads")), *([self.held()] if self.held() else [])]

    def truth(self):
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.cluster.environment, RATION_SIM=self.cluster.node), capture_output=True, text=True, check=True)
        return json.loads(told.stdout)["devices"][0]

    def held(self):
        """By all processes on the simulated card, in bytes."""
        return self.truth()["total_bytes"] - self.truth()["free_bytes"]

    def phases(self):
        return {entry["metadata"]["name"]: entry["status"].get("phase") for entry in self.cluster.get("pods")["items"]}

    def running(self, *names):
        until(lambda: all(self.phases()[name] == "Running" for name in names), lambda: f"{names} run: " + self.described(*names))

    def described(self, *names):
        return self.cluster.kubectl("describe", "pod", *names).stdout[-3000:]

    def ended(self, name):
        until(lambda: self.phases()[name] in ("Succeeded", "Failed"), f"{name} has ended")
        return self.cluster.kubectl("logs", name).stdout


class FourOnACard:
    """Shares of 4 GiB, whoever offers them: a `driver`, by whose words a test case has a `start` of its own."""

    def settle(self, *names):
        """After a kill: what else these pods need to run."""

    def test_four_of_five_run_and_the_fifth_once_one_has_ended(self):
        names = [f"p{number}" for number in range(5)]
        for name in names:
            self.start(name, "ration-workload", "hold", "3GiB")
        until(lambda: sorted(self.phases().values()) == ["Pending"] + ["Running"] * 4, "four run")
        until(lambda: self.held() == 4 * (3 * GIB + 64 * MIB), "they hold what they want")
        waits = next(name for name, phase in self.phases().items() if phase == "Pending")
        rows = {row["workload"]: row for row in self.ask("/api/v1/workloads")}
        self.assertEqual({row["limit_bytes"] for row in rows.values()}, {4 * GIB})
        self.assertIn("container=default/p", rows[sorted(rows)[0]]["labels"])
        self.cluster.kubectl("delete", "pod", next(name for name in names if name != waits), "--force", "--grace-period=0")
        until(lambda: self.phases()[waits] == "Running", "the fifth runs")
        self.assertLessEqual(self.truth()["peak_bytes"], 16 * GIB)

    def test_every_way_of_the_probe_is_held_in_a_pod(self):
        before = self.truth()["peak_bytes"]
        self.start("probe", "ration-workload", "probe", "64")
        lines = self.ended("probe").splitlines()
        self.assertGreaterEqual(len(lines), 28, lines)
        self.assertLessEqual(self.truth()["peak_bytes"], max(before, 4 * GIB))

    def test_whatever_is_killed_while_pods_come_and_go_nothing_is_left_and_nothing_is_unlimited(self):
        draw = random.Random(11)
        number = 0
        for victim in [name for name in (self.driver, "rationd", "kubelet", "containerd") for _ in range(KILLS)]:
            leaving, coming = [f"k{number + offset}" for offset in range(2)], [f"k{number + offset}" for offset in range(2, 4)]
            number += 4
            # A container whose start a kubelet that is killed had asked for has failed: one that is not started again would end its pod.
            for name in leaving:
                self.start(name, "ration-workload", "hold", "3GiB", restartPolicy="Always")
            self.running(*leaving)
            self.cluster.kubectl("delete", "pod", *leaving, "--wait=false")
            for name in coming:
                self.start(name, "ration-workload", "hold", "3GiB", restartPolicy="Always")
            time.sleep(draw.random() * 2)  # not a wait for anything: the kill is to come at any moment
            self.cluster.kill_and_start(victim)
            self.settle(*coming)
            self.running(*coming)
            until(lambda: self.held() == 2 * (3 * GIB + 64 * MIB), lambda: f"they hold what they want after {victim} was killed: {self.truth()}")
            self.assertEqual({(row["limit_bytes"], row["governed"]) for row in self.ask("/api/v1/workloads")}, {(4 * GIB, True)})
            self.cluster.kubectl("delete", "pod", *coming, "--wait=false")
            until(lambda: self.left() == [], lambda: f"nothing is left after {victim} was killed: {self.left()}")


    def test_a_node_that_reboots_with_leases_open(self):
        names = ["r0", "r1"]
        for name in names:
            self.start(name, "ration-workload", "hold", "3GiB", restartPolicy="Always")
        until(lambda: self.held() == 2 * (3 * GIB + 64 * MIB), "they hold what they want")
        self.cluster.reboot(self.driver)
        self.settle(*names)
        until(lambda: self.held() == 2 * (3 * GIB + 64 * MIB), lambda: f"they hold it again: {self.described(*names)}")
        self.assertEqual([(row["limit_bytes"], row["governed"]) for row in self.ask("/api/v1/workloads")], [(4 * GIB, True)] * 2)
        self.assertEqual(len(self.ask("/api/v1/claims")), 2)


def asking(**amounts):
    """Resources of a container; gpu_memory=4: 4 GiB."""
    return {"limits": {f"ration.sh/{name.replace('_', '-')}-gib": amount for name, amount in amounts.items()}}


class OnDevicePlugin(OnNode):
    def start(self, name, *words, gib=4, **spec):
        self.cluster.apply(pod(name, words, asking(gpu_memory=gib), **spec))

    @classmethod
    def offered(cls, resource="ration.sh/gpu-memory-gib"):
        return int(cls.cluster.get("node", NAME)["status"]["allocatable"].get(resource, 0))
