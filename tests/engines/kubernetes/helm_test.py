#!/usr/bin/env python3
"""ration installed in a real Kubernetes by its Helm chart: upgraded, rolled back and removed while pods run."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as one_node  # noqa: E402

one_node.in_own_namespaces()
from governed_cluster import DRIVER_HERE, MANIFESTS as CHART, ON_CLUSTER, TEMPLATE, GovernedCluster, OnNode  # noqa: E402
from node_client import GIB, MIB  # noqa: E402

IMAGE = "image.repository=ration.test/ration-kubernetes"
VERSION = (one_node.SOURCE / "VERSION").read_text().strip()
HELD = 3 * GIB + 64 * MIB  # by a workload of 3 GiB, with its context

# No proxy brings the API server's service address to this node, and its pods have no network: what the cluster lacks, and not the chart, is added to ration's pods.
NODES_NETWORK = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: network-of-the-node}
spec:
  matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ration-system}},
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        Object{spec: Object.spec{hostNetwork: true, containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, env: [
        Object.spec.containers.env{name: "KUBERNETES_SERVICE_HOST", value: "127.0.0.1"}, Object.spec.containers.env{name: "KUBERNETES_SERVICE_PORT", value: "26443"}]})}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: network-of-the-node}
spec: {policyName: network-of-the-node}
"""

# As some distributions have it: a namespace that does not say otherwise runs no pod with folders or processes of its node.
POD_SECURITY = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: baseline, enforce-version: latest}}
"""
UNRESTRICTED = "pod-security.kubernetes.io/enforce=privileged"

PASSING = ("componentstatuses", "events", "events.events.k8s.io", "leases.coordination.k8s.io")  # kinds of objects that come and go by themselves
FOLDERS = ("/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry", "/run/cdi")
FOLDER_OF_THE_DRIVER = {"/var/lib/kubelet/plugins/gpu-memory.ration.sh", "/var/lib/kubelet/plugins/gpu-memory.ration.sh/lock"}


class ClusterUnderPodSecurity(GovernedCluster):
    def start(self, part, *words, name=None):
        if part == "kube-apiserver":
            (self.folder / "admission.yaml").write_text(POD_SECURITY)
            words = (*words, f"--admission-control-config-file={self.folder}/admission.yaml")
        return super().start(part, *words, name=name)


class Chart:
    """What holds with every release of Helm that is supported: a `major`."""

    @classmethod
    def setUpClass(cls):
        cls.program = shutil.which("helm", path=one_node.SOURCE / f"build/helm/{cls.major}")
        if cls.program is None:
            raise unittest.SkipTest(f"Helm {cls.major} is not here; ./dev test kubernetes makes it")
        cls.cluster = ClusterUnderPodSecurity.of(cls)
        cls.cluster.begin()
        cls.cluster.kubectl("label", "namespace", "default", UNRESTRICTED, check=True)
        cls.cluster.kubectl("label", "node", one_node.NODE, "ration.sh/gpu-memory=offered", check=True)
        cls.cluster.import_adapter(VERSION)
        cls.cluster.apply(NODES_NETWORK)
        cls.cluster.apply(TEMPLATE)
        cls.before, cls.files_before = cls.objects(), cls.files()

    def setUp(self):
        one_node.until(lambda: not self.added(), lambda: f"nothing is left of the test before, nor GPUs that its driver offered: {self.added()}")

    def helm(self, *words):
        homes = {f"HELM_{name}_HOME": str(self.cluster.folder / "helm") for name in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run([self.program, *map(str, words)], env={**self.cluster.environment, **homes}, capture_output=True, text=True, timeout=2 * one_node.kubernetes_cluster.PATIENCE)

    def must(self, *words):
        done = self.helm(*words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.cluster.kubectl("-n", "ration-system", "describe", "daemonsets,pods").stdout[-3000:])
        return done.stdout

    def install(self, *words, namespace="default"):
        self.addCleanup(self.remove, "--ignore-not-found", namespace=namespace)
        told = self.must("install", "ration", CHART, "--namespace", namespace, "--set", IMAGE, "--wait", *words)
        one_node.until(self.cluster.offered, lambda: "the node's GPU is offered: " + self.cluster.kubectl("-n", "ration-system", "describe", "pods").stdout[-2000:])
        return told

    def upgrade(self, *settings):
        self.must("upgrade", "ration", CHART, "--reset-then-reuse-values", "--wait", *(word for setting in settings for word in ("--set", setting)))

    def remove(self, *words, namespace="default"):
        self.must("uninstall", "ration", "--namespace", namespace, "--wait", *words)

    @classmethod
    def objects(cls):
        """Everything that is in the cluster."""
        kinds = [kind for kind in cls.cluster.kubectl("api-resources", "--verbs=list", "-o", "name", check=True).stdout.split() if kind not in PASSING]
        told = cls.cluster.kubectl("get", ",".join(kinds), "-A", "-o", r'jsonpath={range .items[*]}{.kind} {.metadata.namespace} {.metadata.name}{"\n"}{end}', check=True).stdout
        return set(told.splitlines())

    @staticmethod
    def files():
        """What drivers, and devices of containers, have on the node."""
        return {str(path) for folder in FOLDERS for path in pathlib.Path(folder).rglob("*")}

    def added(self, *kinds):
        """Objects that were not there before ration was, of other kinds than these."""
        return {each for each in self.objects() - self.before if each.split()[0] not in kinds}

    def drivers(self):
        """The driver's pods that are ready, by what may be asked of each."""
        return {pod["metadata"]["uid"]: pod["spec"]["containers"][0]["resources"]["limits"]["memory"]
                for pod in self.cluster.get("-n", "ration-system", "pods", "-l", "app.kubernetes.io/name=ration-kubernetes")["items"]
                if "deletionTimestamp" not in pod["metadata"] and all(status["ready"] for status in pod["status"]["containerStatuses"])}

    def sizes(self):
        return self.cluster.get("-n", "ration-system", "configmap", "claim-sizes")["data"]

    def start(self, name):
        """With a grace period, as pods have: without one the API server forgets a pod before its node has given its claim back."""
        self.cluster.ask_for(self, name, "ration-workload", "hold", "3GiB", terminationGracePeriodSeconds=1)
        self.running(name)
        self.started = self.container_of(name)

    def container_of(self, name):
        return self.cluster.get("pod", name)["status"]["containerStatuses"][0]["containerID"]

    def keeps(self, name):
        """A running pod is the one that was started, and keeps its memory and its limit: what starts in it from now on sees 4 GiB, and is denied 5."""
        self.assertEqual((self.phases()[name], self.container_of(name)), ("Running", self.started))
        one_node.until(lambda: self.held() == HELD, lambda: f"{name} holds its memory: {self.held()}")
        self.assertEqual(self.cluster.total_in(name), str(4 * GIB))
        self.assertNotIn("holding", self.cluster.kubectl("exec", name, "--", "ration-workload", "hold", "5GiB").stdout)

    # ---------------------------------------------------------------------------------------------------------------------

    def test_a_running_pod_keeps_its_memory_and_limit_while_the_chart_is_upgraded_rolled_back_removed_and_installed_again(self):
        self.assertIn("kubectl label node NAME ration.sh/gpu-memory=offered", self.install())
        daemonset = self.cluster.get("-n", "ration-system", "daemonset", "ration-kubernetes")["status"]
        self.assertEqual((daemonset["desiredNumberScheduled"], daemonset["numberReady"]), (1, 1))
        self.start("stays")
        self.keeps("stays")
        first = self.drivers()

        self.upgrade("claimSizes.largest=3Gi")
        self.assertEqual(self.sizes(), {"smallest": "512Mi", "largest": "3Gi"})
        claim = json.dumps({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "large"}, "spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu-memory.ration.sh", "capacity": {"requests": {"memory": "4Gi"}}}}]}}})
        one_node.until(lambda: "the largest claim is 3Gi" in self.cluster.kubectl("create", "--dry-run=server", "-f", "-", input=claim).stderr, "larger claims are rejected")
        self.assertEqual(self.drivers(), first)  # a value that is not about the pods renews none
        self.keeps("stays")

        self.upgrade("resources.limits.memory=300Mi")
        second = one_node.until(lambda: not first.keys() & (now := self.drivers()).keys() and now, "the driver is renewed")
        self.assertEqual((list(first.values()), list(second.values())), (["256Mi"], ["300Mi"]))
        self.assertEqual(self.sizes()["largest"], "3Gi")  # what an earlier upgrade set stays
        self.keeps("stays")

        wrong = self.helm("upgrade", "ration", CHART, "--reset-then-reuse-values", "--set", "claimSizes.largest=much")
        self.assertNotEqual(wrong.returncode, 0)
        self.assertRegex(wrong.stderr, r"claimSizes[./]largest")
        self.assertEqual((self.sizes()["largest"], self.drivers()), ("3Gi", second))

        self.must("rollback", "ration", "1", "--wait")
        one_node.until(lambda: list(self.drivers().values()) == ["256Mi"] and not self.drivers().keys() & second.keys(), "the driver is what it was")
        self.assertEqual(self.sizes(), {"smallest": "512Mi", "largest": "1Ti"})
        self.keeps("stays")

        self.remove()
        one_node.until(lambda: not self.added("Pod", "ResourceClaim"), lambda: f"nothing of the chart is in the cluster: {self.added('Pod', 'ResourceClaim')}")
        self.assertEqual([path for path in self.files() - self.files_before - FOLDER_OF_THE_DRIVER if not re.fullmatch(r"/run/cdi/ration-claim[^/]*", path)], [])
        self.assertEqual(len(list(pathlib.Path("/run/cdi").glob("ration-claim*"))), 1)  # of the pod that runs
        self.keeps("stays")

        # A pod that ends meanwhile gives its memory back at once, and is gone once the chart is there again.
        self.cluster.kubectl("delete", "pod", "stays", "--wait=false", check=True)
        one_node.until(lambda: self.held() == 0, "its memory is given back")
        self.assertIn("stays", self.phases())
        self.assertEqual(len(self.ask("/api/v1/claims")), 1)  # its node still has its claim
        self.install()
        one_node.until(lambda: not self.phases() and self.left() == [], lambda: f"nothing is left of the pod: {self.left()}")

        self.remove()
        one_node.until(lambda: not self.added(), lambda: f"nothing is left in the cluster: {self.added()}")
        self.assertEqual(self.files() - self.files_before - FOLDER_OF_THE_DRIVER, set())

    def test_what_is_deleted_by_force_while_the_chart_is_removed_is_given_back_once_it_is_installed_again(self):
        self.install()
        self.start("forced")
        self.remove()
        self.cluster.kubectl("delete", "pod", "forced", "--force", "--grace-period=0", check=True)
        one_node.until(lambda: not self.phases() and self.held() == 0, "the pod is gone, and what it held")
        self.assertEqual(len(self.ask("/api/v1/claims")), 1)
        self.install()
        one_node.until(lambda: self.left() == [], lambda: f"its claim is given back: {self.left()}")

    def test_the_release_may_lie_in_rations_namespace(self):
        self.cluster.kubectl("create", "namespace", "ration-system", check=True)
        self.addCleanup(self.cluster.kubectl, "delete", "namespace", "ration-system")
        self.cluster.kubectl("label", "namespace", "ration-system", UNRESTRICTED, check=True)
        self.install("--create-namespace", namespace="ration-system")
        self.start("inside")
        self.keeps("inside")
        self.cluster.kubectl("delete", "pod", "inside", check=True)
        self.remove(namespace="ration-system")
        own = {"Namespace  ration-system", "ServiceAccount ration-system default", "ConfigMap ration-system kube-root-ca.crt"}
        one_node.until(lambda: self.added() == own, lambda: f"the namespace alone is left: {self.added()}")

    def test_what_kubectl_has_installed_is_named_and_can_be_taken_over(self):
        overlay = self.cluster.overlay("base", patches=[DRIVER_HERE])
        self.addCleanup(shutil.rmtree, overlay)
        self.cluster.install(overlay)
        one_node.until(self.cluster.offered, "the node's GPU is offered")
        self.start("earlier")
        rejected = self.helm("install", "ration", CHART, "--set", IMAGE)
        self.assertNotEqual(rejected.returncode, 0)
        self.assertRegex(rejected.stderr, r'(Namespace|\w+) "[\w-]+" .*exists and cannot be imported')
        self.install("--take-ownership", *(["--force-conflicts"] if self.major >= 4 else []))
        self.keeps("earlier")
        self.cluster.kubectl("delete", "pod", "earlier", check=True)
        self.remove()
        one_node.until(lambda: not self.added(), lambda: f"nothing is left in the cluster: {self.added()}")

    def test_monitoring_without_its_operator_installs_nothing_and_says_why(self):
        done = self.helm("install", "ration", CHART, "--set", IMAGE, "--set", "monitoring.enabled=true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("PodMonitor", done.stderr)
        self.assertEqual(self.added(), set())


@ON_CLUSTER
class Helm4(Chart, OnNode):
    major = 4


@ON_CLUSTER
class Helm3(Chart, OnNode):
    major = 3


if __name__ == "__main__":
    unittest.main()
