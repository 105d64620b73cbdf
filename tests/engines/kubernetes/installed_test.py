#!/usr/bin/env python3
"""ration installed in a real Kubernetes by its manifests: `kubectl apply -k`, the driver as a DaemonSet, renewed and removed while pods run."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as one_node  # noqa: E402

one_node.in_own_namespaces()
from governed_cluster import DRIVER, DRIVER_HERE, ON_CLUSTER, TEMPLATE, GovernedCluster  # noqa: E402
from node_client import GIB  # noqa: E402

QUOTA = f"""
apiVersion: v1
kind: ResourceQuota
metadata: {{name: gpu-shares}}
spec: {{hard: {{{DRIVER}.deviceclass.resource.k8s.io/devices: "1"}}}}
"""


@ON_CLUSTER
class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = GovernedCluster.of(cls)
        cls.cluster.begin()
        cls.overlay = cls.cluster.overlay("base", patches=[DRIVER_HERE])
        cls.cluster.install(cls.overlay)
        cls.cluster.apply(TEMPLATE)
        cls.cluster.kubectl("label", "node", one_node.NODE, "ration.sh/gpu-memory=offered", check=True)
        one_node.until(cls.cluster.offered, lambda: "the node's GPU is offered: " + cls.cluster.kubectl("-n", "ration-system", "describe", "pods").stdout[-2000:])

    def of_node(self):
        return self.cluster.get("-n", "ration-system", "daemonset", "ration-kubernetes")

    def test_the_driver_has_no_privileges_beyond_the_nodes_sockets(self):
        spec = self.of_node()["spec"]["template"]["spec"]
        for container in spec["containers"]:
            self.assertNotIn("privileged", container["securityContext"])
            self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
            self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
        self.assertEqual({volume["hostPath"]["path"] for volume in spec["volumes"]},
                         {"/run/ration", "/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry"})

    def test_pods_keep_their_limit_while_the_driver_is_renewed_and_removed(self):
        self.cluster.start_pod(self, "stays", "sleep", "100000")
        self.assertEqual(self.cluster.total_in("stays"), str(4 * GIB))
        self.cluster.kubectl("-n", "ration-system", "rollout", "restart", "daemonset/ration-kubernetes", check=True)
        one_node.until(lambda: self.of_node()["status"].get("updatedNumberScheduled") == 1 and self.of_node()["status"].get("numberReady") == 1, "the driver is renewed")
        self.assertEqual(self.cluster.total_in("stays"), str(4 * GIB))
        self.cluster.start_pod(self, "new", "sleep", "100000")
        self.assertEqual(self.cluster.total_in("new"), str(4 * GIB))
        self.cluster.kubectl("-n", "ration-system", "delete", "daemonset", "ration-kubernetes", check=True)
        one_node.until(lambda: not self.cluster.get("-n", "ration-system", "pods")["items"], "the driver is gone")
        self.assertEqual(self.cluster.total_in("stays"), str(4 * GIB))
        self.cluster.kubectl("delete", "pod", "stays", "new", "--wait=false", check=True)
        self.cluster.install(self.overlay)
        one_node.until(lambda: not self.cluster.get("pods")["items"] and not list(one_node.pathlib.Path("/run/cdi").glob("ration-claim*")), "nothing is left of them")

    def test_a_claim_says_what_was_granted(self):
        self.cluster.start_pod(self, "tells", "sleep", "100000")
        claim = one_node.until(lambda: [entry for entry in self.cluster.get("resourceclaims")["items"] if entry["metadata"]["name"].startswith("tells-") and entry["status"].get("devices")],
                               "what was granted stands in the claim's status")[0]
        device = claim["status"]["devices"][0]
        self.assertEqual((device["driver"], device["data"]["limitBytes"], device["conditions"][0]["type"]), (DRIVER, 4 * GIB, "Ready"))

    def test_a_pod_that_is_rejected_on_the_node_says_why(self):
        self.cluster.apply(json.dumps({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "strange"}, "spec": {"spec": {"devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER, "capacity": {"requests": {"memory": "4Gi"}}}}],
                "config": [{"opaque": {"driver": DRIVER, "parameters": {"apiVersion": "ration.sh/v1", "kind": "GPUMemory", "growth": True}}}]}}}}))
        self.cluster.ask_for(self, "strange", "sleep", "1", claim="strange")
        one_node.until(lambda: "GPUMemoryDenied" in self.cluster.kubectl("describe", "pod", "strange").stdout,
                       lambda: "the pod says why: " + self.cluster.kubectl("describe", "pod", "strange").stdout[-2000:])
        self.assertIn("leave growth out", self.cluster.kubectl("describe", "pod", "strange").stdout)

    def test_a_namespace_has_a_quota_of_claims(self):
        self.cluster.kubectl("create", "namespace", "small", check=True)
        one_node.until(lambda: self.cluster.kubectl("-n", "small", "apply", "-f", "-", input=QUOTA).returncode == 0, "the quota is there")
        one_node.until(lambda: self.cluster.get("-n", "small", "resourcequota", "gpu-shares")["status"].get("hard"), "the quota counts")
        claim = json.dumps({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"generateName": "share-"}, "spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "capacity": {"requests": {"memory": "4Gi"}}}}]}}})
        first = self.cluster.kubectl("-n", "small", "create", "-f", "-", input=claim)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("exceeded quota: gpu-shares", self.cluster.kubectl("-n", "small", "create", "-f", "-", input=claim).stderr)


if __name__ == "__main__":
    unittest.main()
