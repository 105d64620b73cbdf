#!/usr/bin/env python3
"""Pods that ask for GPU memory in GiB by the device plugin, on a real Kubernetes of one node with a simulated card of 16 GiB."""
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as one_node  # noqa: E402

one_node.in_own_namespaces()
from governed_cluster import ADAPTER, ON_CLUSTER, WORKLOAD, FourOnACard, GovernedCluster, OnDevicePlugin, asking, pod  # noqa: E402
from node_client import GIB  # noqa: E402


@ON_CLUSTER
class DevicePlugin(FourOnACard, OnDevicePlugin):
    driver = "device-plugin"

    @classmethod
    def setUpClass(cls):
        cls.cluster = GovernedCluster.of(cls)
        cls.cluster.begin()
        cls.cluster.start_device_plugin()
        one_node.until(lambda: cls.offered() == 16, lambda: f"16 GiB are offered: {cls.cluster.get('node', one_node.NODE)['status']['allocatable']}")

    def settle(self, *names):
        one_node.until(lambda: self.offered() == 16, "the GPU is offered")
        for name in names:  # kubelet rejects a pod for good that comes while it knows no plugin, or the plugin no rationd
            if one_node.until(lambda: self.phases()[name] in ("Running", "Failed") and self.phases()[name], lambda: f"{name} is done with: " + self.described(name)) == "Failed":
                self.assertIn("UnexpectedAdmissionError", self.described(name))
                self.cluster.kubectl("delete", "pod", name, "--force", "--grace-period=0")
                self.start(name, "ration-workload", "hold", "3GiB", restartPolicy="Always")

    def test_a_container_that_runs_before_a_pods_others_has_its_limit_and_they_have_theirs(self):
        first = {"name": "first", "image": WORKLOAD, "imagePullPolicy": "Never", "command": ["ration-workload", "total"], "resources": asking(gpu_memory=2)}
        self.start("train", "ration-workload", "total", gib=4, initContainers=[first])
        self.assertEqual(self.ended("train").strip(), str(4 * GIB), self.described("train"))
        self.assertEqual(self.cluster.kubectl("logs", "train", "-c", "first").stdout.strip(), str(2 * GIB))

    def test_a_pod_whose_first_container_alone_asks_keeps_it_while_that_runs(self):
        first = {"name": "first", "image": WORKLOAD, "imagePullPolicy": "Never", "command": ["ration-workload", "hold", "1GiB"], "resources": asking(gpu_memory=2)}
        self.cluster.apply(pod("prepares", ["true"], {}, initContainers=[first]))
        one_node.until(lambda: self.held() > GIB, "it holds memory")
        self.start("passing", "ration-workload", "total")
        self.ended("passing")
        self.cluster.kubectl("delete", "pod", "passing", "--wait=false")
        one_node.until(lambda: len(self.ask("/api/v1/claims")) == 1, "the other's claim has ended")
        self.assertEqual(self.ask("/api/v1/claims")[0]["devices"][0]["limit_bytes"], 2 * GIB)

    def test_pods_keep_their_limit_over_a_restart_of_the_kubelet_and_new_ones_get_theirs(self):
        self.start("stays", "sleep", "100000")
        self.running("stays")
        self.cluster.kill("kubelet")
        self.cluster.start_kubelet()
        self.start("new", "sleep", "100000", gib=6)
        self.running("stays", "new")
        self.assertEqual((self.cluster.total_in("stays"), self.cluster.total_in("new")), (str(4 * GIB), str(6 * GIB)))
        self.assertEqual({claim["devices"][0]["limit_bytes"] for claim in self.ask("/api/v1/claims")}, {4 * GIB, 6 * GIB})

    def test_without_the_daemon_no_pod_starts_and_says_why(self):
        self.cluster.kill("rationd")
        try:
            self.start("early", "sleep", "100000")
            one_node.until(lambda: self.phases()["early"] == "Failed", lambda: "the pod fails: " + self.described("early"))
            self.assertIn("rationd does not answer on /run/ration/ration.sock", self.described("early"))
        finally:
            self.cluster.start_daemon()
        one_node.until(lambda: self.ask("/api/v1/claims") == [], "rationd answers")

    def test_the_other_driver_does_not_offer_the_same_gpu(self):
        done = subprocess.run([ADAPTER, "dra", "--node", one_node.NODE, "--kubeconfig", self.cluster.folder / "kubeconfig"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ration-kubernetes: the GPUs of this node are offered by ration-kubernetes device-plugin already", done.stderr.strip().splitlines()[-1])
        self.assertEqual(self.cluster.offered(), [])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
