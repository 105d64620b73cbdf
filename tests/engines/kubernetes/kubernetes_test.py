#!/usr/bin/env python3
"""Pods with claims on GPU memory, on a real Kubernetes of one node with a simulated card of 16 GiB."""
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as one_node  # noqa: E402

one_node.in_own_namespaces()
from governed_cluster import CLAIM, DRIVER, NODE, ON_CLUSTER, WORKLOAD, FourOnACard, GovernedCluster, OnNode, pod  # noqa: E402
from node_client import BIN, GIB  # noqa: E402


def claiming(name, words, claims, **spec):
    named = [{"name": f"c{number}", **({"resourceClaimName": claim[1:]} if claim.startswith("=") else {"resourceClaimTemplateName": claim})}
             for number, claim in enumerate(claims)]
    return pod(name, words, {"claims": [{"name": claim["name"]} for claim in named]}, resourceClaims=named, **spec)


def claim_of(size):
    return f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{generateName: sized-}}
spec: {{{CLAIM}}}
""".replace("4Gi", size)


@ON_CLUSTER
class Kubernetes(FourOnACard, OnNode):
    driver = "driver"

    @classmethod
    def setUpClass(cls):
        cls.cluster = GovernedCluster.of(cls)
        cls.cluster.up()

    def start(self, name, *words, claims=("four",), **spec):
        self.cluster.apply(claiming(name, words, claims, **spec))

    # ---------------------------------------------------------------------------------------------------------------------

    def test_a_pod_that_wants_more_than_its_claim_gets_its_own_error(self):
        self.start("neighbour", "ration-workload", "hold", "3GiB")
        one_node.until(lambda: self.held() > 3 * GIB, "the neighbour holds memory")
        self.start("greedy", "ration-workload", "hold", "5GiB")
        self.assertNotIn("holding", self.ended("greedy"))
        self.assertEqual(self.phases(), {"neighbour": "Running", "greedy": "Failed"})

    def test_two_claims_of_a_container_are_one_limit(self):
        self.start("two", "ration-workload", "total", claims=("four", "four"))
        self.assertEqual(self.ended("two").strip(), str(8 * GIB))

    def test_pods_of_one_claim_share_it(self):
        self.cluster.apply(f"""
            apiVersion: resource.k8s.io/v1
            kind: ResourceClaim
            metadata: {{name: shared}}
            spec: {{{CLAIM}}}
            """)
        self.start("one", "ration-workload", "hold", "3GiB", claims=("=shared",))
        one_node.until(lambda: self.held() > 3 * GIB, "the first holds memory")
        self.start("other", "ration-workload", "hold", "2GiB", claims=("=shared",))
        self.assertNotIn("holding", self.ended("other"))

    def test_what_no_gpu_could_hold_is_refused_with_words(self):
        self.cluster.kubectl("-n", "ration-system", "patch", "configmap", "claim-sizes", "--patch", '{"data": {"largest": "16Gi"}}', check=True)
        for size, words in (("17Gi", "no GPU of this cluster has 17Gi of memory: the largest claim is 16Gi"), ("17", "the smallest claim is 512Mi"), ("100Mi", "the smallest claim is 512Mi")):
            done = self.cluster.kubectl("create", "-f", "-", input=claim_of(size))
            self.assertIn(words, done.stderr)
        for text in (claim_of("4Gi").replace("capacity: {requests: {memory: 4Gi}}", ""), claim_of("4Gi").replace("memory:", "memry:")):
            self.assertIn("a claim on gpu-memory.ration.sh says how much memory", self.cluster.kubectl("create", "-f", "-", input=text).stderr)
        one = f"deviceClassName: {DRIVER}, capacity: {{requests: {{memory: 4Gi}}}}"
        alternatives = claim_of("4Gi").replace(f"exactly: {{{one}}}", f"firstAvailable: [{{name: more, {one.replace('4Gi', '17Gi')}}}, {{name: less, {one}}}]")
        self.assertIn("no GPU of this cluster has 17Gi, 4Gi of memory", self.cluster.kubectl("create", "-f", "-", input=alternatives).stderr)
        self.assertIn("says how much memory", self.cluster.kubectl("create", "-f", "-", input=alternatives.replace(", capacity: {requests: {memory: 4Gi}}", "")).stderr)
        done = self.cluster.kubectl("create", "-f", "-", input=claim_of("16Gi"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_claim_chooses_a_gpu_by_what_it_says_of_itself(self):
        gpu = f'device.attributes["{DRIVER}"]'
        for name, wanted in (("turing", f'{gpu}.architecture == "Turing" && {gpu}.cudaComputeCapability.compareTo(semver("7.5.0")) >= 0 && {gpu}.enforcedBy == "shim" && {gpu}.simulated'),
                             ("hopper", f'"architecture" in {gpu} && {gpu}.architecture == "Hopper"')):
            self.cluster.apply(f"""
                apiVersion: resource.k8s.io/v1
                kind: ResourceClaim
                metadata: {{name: {name}}}
                spec: {{{CLAIM.replace("capacity:", f"selectors: [{{cel: {{expression: '{wanted}'}}}}], capacity:")}}}
                """)
            self.start(name, "sleep", "100000", claims=("=" + name,))
        self.running("turing")
        one_node.until(lambda: "cannot allocate all claims" in self.described("hopper"), lambda: "the other has no GPU: " + self.described("hopper"))
        self.assertEqual(self.phases()["hopper"], "Pending")

    def test_what_runs_on_a_node_offers_no_gpus_of_another(self):
        done = self.cluster.kubectl("--kubeconfig", self.cluster.folder / "driver.kubeconfig", "create", "-f", "-", input=f"""
            {{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {{"name": "forged"}}, "spec": {{"driver": "{DRIVER}", "nodeName": "n2",
              "pool": {{"name": "n2", "generation": 1, "resourceSliceCount": 1}}, "devices": [{{"name": "gpu-0"}}]}}}}""")
        self.assertIn("may offer the GPUs of its own node alone, not of n2", done.stderr)

    def test_the_snippet_is_a_pod_that_runs(self):
        text = subprocess.run([BIN / "ration", "snippet", "kubernetes", WORKLOAD, "--limit", "2GiB"], env=dict(self.cluster.environment, RATION_SIM=NODE),
                              capture_output=True, text=True, check=True).stdout
        self.cluster.apply(text.replace("image:", "imagePullPolicy: Never\n    command: [ration-workload, total]\n    image:").replace("spec:\n  restart", "spec:\n  hostNetwork: true\n  restart"))
        self.assertEqual(self.ended("gpu-program").strip(), str(2 * GIB))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
