#!/usr/bin/env python3
"""The device plugin installed in a real Kubernetes by its manifests, on a node with two simulated cards of 16 GiB."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as one_node  # noqa: E402

one_node.in_own_namespaces()
from governed_cluster import ADAPTER, NODE, ON_CLUSTER, GovernedCluster, OnDevicePlugin, asking, pod, pod_patch  # noqa: E402
from node_client import GIB  # noqa: E402


class TwoCards(GovernedCluster):
    node = f"{NODE}*2"


@ON_CLUSTER
class Installed(OnDevicePlugin):
    @classmethod
    def setUpClass(cls):
        cls.cluster = TwoCards.of(cls)
        cls.cluster.begin()
        plugin = pod_patch("ration-device-plugin", {"name": "device-plugin", "args": ["device-plugin", "--gpu-kind", ""]}, hostNetwork=True)
        cls.cluster.install(cls.cluster.overlay("base/device-plugin", patches=[plugin]))
        cls.cluster.kubectl("label", "node", one_node.NODE, "ration.sh/gpu-memory=device-plugin", check=True)
        one_node.until(lambda: [cls.offered(f"ration.sh/gpu-{number}-memory-gib") for number in range(2)] == [16, 16],
                       lambda: "both GPUs are offered: " + cls.cluster.kubectl("-n", "ration-system", "describe", "pods").stdout[-2000:])

    def test_a_share_is_of_one_gpu_and_waits_for_it(self):
        self.assertEqual(self.offered(), 0)
        for name in ("one", "other"):
            self.cluster.apply(pod(name, ["sleep", "100000"], asking(gpu_0_memory=9)))
        one_node.until(lambda: sorted(self.phases().values()) == ["Pending", "Running"], "one runs")
        self.assertIn("Insufficient ration.sh/gpu-0-memory-gib", self.described(next(name for name, phase in self.phases().items() if phase == "Pending")))

    def test_a_container_of_two_gpus_has_a_limit_on_each(self):
        self.cluster.apply(pod("both", ["sleep", "100000"], asking(gpu_0_memory=4, gpu_1_memory=6)))
        self.running("both")
        self.assertEqual(self.cluster.total_in("both"), str(4 * GIB))
        self.assertEqual(sorted(row["limit_bytes"] for row in self.ask("/api/v1/workloads")), [4 * GIB, 6 * GIB])

    def test_the_plugin_has_no_privileges_beyond_the_nodes_sockets_and_no_word_in_the_cluster(self):
        spec = self.cluster.get("-n", "ration-system", "daemonset", "ration-device-plugin")["spec"]["template"]["spec"]
        self.assertFalse(spec["automountServiceAccountToken"])
        for container in spec["containers"]:
            self.assertNotIn("privileged", container["securityContext"])
            self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
            self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
        self.assertEqual({volume["hostPath"]["path"] for volume in spec["volumes"]},
                         {"/run/ration", "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/pod-resources", "/var/lib/kubelet/plugins/gpu-memory.ration.sh"})

    def test_the_other_driver_does_not_offer_the_same_gpus(self):
        done = subprocess.run([ADAPTER, "dra", "--node", one_node.NODE, "--kubeconfig", self.cluster.folder / "kubeconfig"], capture_output=True, text=True, timeout=60)
        self.assertIn("the GPUs of this node are offered by ration-kubernetes device-plugin already", done.stderr)


if __name__ == "__main__":
    unittest.main()
