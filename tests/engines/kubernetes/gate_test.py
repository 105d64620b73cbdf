#!/usr/bin/env python3
"""A real Kubernetes that does not count memory (feature gate DRAConsumableCapacity off): a GPU would go to one claim as a whole, so it is not offered."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as one_node  # noqa: E402

one_node.in_own_namespaces()
from governed_cluster import ON_CLUSTER, TEMPLATE, GovernedCluster  # noqa: E402


@ON_CLUSTER
class WithoutCounting(unittest.TestCase):
    def begin(self, *parts):
        """A cluster, those programs of which do not count."""
        self.cluster = GovernedCluster.of(self, feature_gates=dict.fromkeys(parts, "DRAConsumableCapacity=false"))
        self.cluster.begin()
        self.cluster.drive()

    def test_nothing_is_offered_and_the_node_says_why(self):
        self.begin("kube-apiserver", "kube-scheduler")
        told = one_node.until(lambda: [event for event in self.cluster.get("events", "--all-namespaces")["items"] if event.get("reason") == "GPUMemoryWithdrawn"], "the node says why")
        self.assertEqual((told[0]["involvedObject"]["kind"], told[0]["involvedObject"]["name"], told[0]["type"]), ("Node", one_node.NODE, "Warning"))
        self.assertIn("DRAConsumableCapacity", told[0].get("message", "") + told[0].get("note", ""))
        self.assertEqual(self.cluster.offered(), [])
        # The API server takes up a new policy a moment after it has it.
        one_node.until(lambda: "a cluster without the feature gate DRAConsumableCapacity does not read that" in
                       self.cluster.kubectl("create", "--dry-run=server", "-f", "-", input=TEMPLATE).stderr, "no claim is admitted")

    def test_a_scheduler_alone_that_does_not_count_places_no_pod_and_says_why(self):
        self.begin("kube-scheduler")
        one_node.until(self.cluster.offered, "the GPU is offered")
        self.cluster.apply(TEMPLATE)
        self.cluster.ask_for(self, "uncounted", "sleep", "100000")
        one_node.until(lambda: "has capacity requests, but the DRAConsumableCapacity feature is disabled" in self.cluster.kubectl("describe", "pod", "uncounted").stdout, "the pod says why")
        self.assertEqual(self.cluster.get("pod", "uncounted")["status"]["phase"], "Pending")


if __name__ == "__main__":
    unittest.main()
