"""A Kubernetes of one node with a simulated card of 16 GiB, rationd and ration-kubernetes on it, and an image to run."""
import os
import pathlib
import sys
import unittest

from cluster import NODE as NAME
from cluster import SOURCE, Cluster, missing, until

sys.path.insert(0, str(SOURCE / "tests/system"))
from containers.engines import root_file_system  # noqa: E402
from node_client import BIN  # noqa: E402

NODE = "T4:16GiB:context=64MiB"
DRIVER = "gpu-memory.ration.sh"
ADAPTER = pathlib.Path(os.environ.get("RATION_KUBERNETES_ADAPTER", SOURCE / "build/kubernetes/ration-kubernetes"))
MANIFESTS = SOURCE / "share/ration/kubernetes"
SOCKET = "/run/ration/ration.sock"
WORKLOAD = "ration.test/workload:1"  # an image
CLAIM = f"devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: {DRIVER}, capacity: {{requests: {{memory: 4Gi}}}}}}}}]}}"
TEMPLATE = f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: four}}
spec: {{spec: {{{CLAIM}}}}}
"""


ON_CLUSTER = unittest.skipIf(missing() or not ADAPTER.exists(), f"{', '.join(missing()) or ADAPTER.name} is not here: ./dev test kubernetes makes it")


class GovernedCluster(Cluster):
    @classmethod
    def of(cls, case, **options):
        """For all tests of a class, or for one of them."""
        cluster = cls(**options)
        (case.addClassCleanup if isinstance(case, type) else case.addCleanup)(cluster.down)
        return cluster

    def up(self):
        self.begin()
        self.drive()
        self.apply(TEMPLATE)
        until(self.offered, "the node's GPU is offered")

    def begin(self):
        """What is there before ration is installed in the cluster: the node with its rationd, and images."""
        super().up()
        self.import_image(root_file_system("/tmp/root"), WORKLOAD, ["/bin/sh"])
        self.import_image("/tmp/root", "ration.test/pause:1", ["/bin/busybox", "sleep", "1000000"])
        os.mkdir("/run/simulated")
        self.environment["RATION_SIM_DIR"] = "/run/simulated"
        self.start_daemon()

    def drive(self):
        """ration.yaml, and the driver as a program of the node."""
        self.apply((MANIFESTS / "ration.yaml").read_text())
        token = self.kubectl("-n", "ration-system", "create", "token", "ration", "--bound-object-kind=Node", f"--bound-object-name={NAME}", check=True).stdout.strip()
        (self.folder / "driver.kubeconfig").write_text(self.kubeconfig(token))
        self.start_driver()
        self.await_policy()

    def await_policy(self):
        """The API server takes up a new policy a moment after it has it."""
        unlimited = TEMPLATE.replace(", capacity: {requests: {memory: 4Gi}}", "")
        until(lambda: "says how much memory" in self.kubectl("create", "--dry-run=server", "-f", "-", input=unlimited).stderr, "the policy is in force")

    def offered(self):
        return [device for entry in self.get("resourceslices")["items"] for device in entry["spec"].get("devices", [])]

    def start_daemon(self):
        self.start(BIN / "ration", "serve", f"--sim={NODE}", "--state", "/var/lib/ration", "--listen", "", name="rationd")

    def start_driver(self):
        self.start(ADAPTER, "dra", "--node", NAME, "--kubeconfig", self.folder / "driver.kubeconfig", "--gpu-kind", "", name="driver")
