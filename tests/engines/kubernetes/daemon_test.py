#!/usr/bin/env python3
"""rationd installed in a real Kubernetes by its manifest, on a node without ration's package: replaced and removed while pods run."""
import contextlib
import json
import os
import pathlib
import shutil
import sys
import tarfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as one_node  # noqa: E402

one_node.in_own_namespaces()
from governed_cluster import DRIVER_HERE, NODE, ON_CLUSTER, SOCKET, TEMPLATE, GovernedCluster, pod_patch  # noqa: E402
from containers.engines import LIBRARIES  # noqa: E402
from node_client import BIN, GIB, MIB, UnixConnection  # noqa: E402

SIMULATED = pod_patch("rationd", {
    "name": "rationd", "args": ["serve", f"--sim={NODE}", "--listen", ""], "env": [{"name": "RATION_SIM_DIR", "value": "/run/simulated"}],
    "readinessProbe": {"periodSeconds": 1}, "volumeMounts": [{"name": "simulated", "mountPath": "/run/simulated"}]},
    terminationGracePeriodSeconds=5, initContainers=[{"name": "package", "imagePullPolicy": "Never"}],
    volumes=[{"name": "simulated", "hostPath": {"path": "/run/simulated"}}])


def image_of_the_daemon(folder):
    """The files of the shipped one, if what is tested is the package; else as ./dev package makes it, of this build: no shell, and the package under /usr."""
    root = pathlib.Path(folder)
    if one_node.IS_PACKAGE:
        with tarfile.open(next((one_node.SOURCE / "build/dist").glob("ration-*-oci.tar"))) as image:
            here = next(entry for entry in json.load(image.extractfile("manifest.json")) if entry["RepoTags"][0].endswith("-amd64"))
            with tarfile.open(fileobj=image.extractfile(here["Layers"][0])) as layer:
                layer.extractall(root)
        return root
    for name in ("usr/bin", "usr/lib/ration/sim", "lib/x86_64-linux-gnu", "lib64", "etc", "tmp", "run/ration", "var/lib/ration"):
        (root / name).mkdir(parents=True)
    for library in LIBRARIES:
        shutil.copy(pathlib.Path("/lib/x86_64-linux-gnu") / library, root / "lib/x86_64-linux-gnu" / library)
    (root / "lib64/ld-linux-x86-64.so.2").symlink_to("../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
    for name in ("ration", "ration-workload"):
        shutil.copy(BIN / name, root / "usr/bin")
    shutil.copytree(BIN.parent / "shim", root / "usr/lib/ration/shim")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        shutil.copy(BIN.parent / "sim" / name, root / "usr/lib/ration/sim")
    for name in ("cuda12", "cuda13"):
        shutil.copytree(BIN.parent / "sim" / name, root / "usr/lib/ration/sim" / name)
    return root


@ON_CLUSTER
class InstalledWithItsDaemon(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = GovernedCluster.of(cls)
        cls.cluster.begin(daemon=False)
        cls.cluster.import_image(image_of_the_daemon("/tmp/daemon"), "ration.test/ration:1", ["/usr/bin/ration"])
        cls.overlay = cls.cluster.overlay("base", "base/daemon", patches=[DRIVER_HERE, SIMULATED], images=["ration-kubernetes", "ration"])
        cls.cluster.install(cls.overlay)
        cls.cluster.apply(TEMPLATE)
        cls.cluster.kubectl("label", "node", one_node.NODE, "ration.sh/gpu-memory=offered", check=True)
        one_node.until(cls.cluster.offered, cls.described)

    @classmethod
    def described(cls):
        logs = [cls.cluster.kubectl("-n", "ration-system", "logs", "daemonset/rationd", "-c", name).stdout[-1000:] for name in ("package", "rationd")]
        return "the node's GPU is offered: " + "\n".join([cls.cluster.kubectl("-n", "ration-system", "describe", "pods").stdout[-4000:], *logs])

    def pods(self):
        return {pod["metadata"]["uid"]: all(status["ready"] for status in pod["status"].get("containerStatuses", [{"ready": False}]))
                for pod in self.cluster.get("-n", "ration-system", "pods", "-l", "app.kubernetes.io/name=rationd")["items"]}

    def workloads(self):
        with contextlib.closing(UnixConnection(SOCKET)) as connection:
            connection.request("GET", "/api/v1/workloads")
            return {row["workload"]: row for row in json.loads(connection.getresponse().read())["data"]}

    def known(self, name, used):
        """Once rationd knows the pod with what it holds."""
        one_node.until(lambda: [row for row in self.workloads().values() if name in row["workload"] and (row["limit_bytes"], row["used_bytes"], row["governed"]) == (4 * GIB, used, True)],
                       lambda: f"rationd knows {name}: {self.workloads()}")

    def holds(self, name):
        """Whether the limit is in force for what starts in the pod from now on: 5 GiB are denied in a total of 4 GiB."""
        self.assertEqual(self.cluster.total_in(name), str(4 * GIB))
        self.assertNotIn("holding", self.cluster.kubectl("exec", name, "--", "ration-workload", "hold", "5GiB").stdout)

    def own_file_systems(self):
        """Books that are file systems of their own, in the node's mounts."""
        return [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines() if line.startswith("ration ")]

    def gone(self):
        one_node.until(lambda: not self.workloads() and not self.own_file_systems(), lambda: f"nothing is left: {self.workloads()} {self.own_file_systems()}")

    def test_pods_keep_their_limit_while_the_daemon_is_replaced(self):
        self.cluster.start_pod(self, "stays", "ration-workload", "hold", "3GiB")
        self.known("stays", 3 * GIB + 64 * MIB)
        self.holds("stays")
        self.assertEqual(len(self.own_file_systems()), 1)
        (before,) = self.pods()
        self.cluster.kubectl("-n", "ration-system", "delete", "pods", "-l", "app.kubernetes.io/name=rationd", "--wait=false", check=True)
        one_node.until(lambda: before not in self.pods() and list(self.pods().values()) == [True], "another pod of rationd's is ready")
        self.holds("stays")
        self.known("stays", 3 * GIB + 64 * MIB)
        self.assertEqual(len(self.own_file_systems()), 1)
        self.cluster.start_pod(self, "new", "sleep", "100000")
        self.holds("new")
        self.cluster.kubectl("delete", "pod", "stays", "new", "--force", "--grace-period=0", check=True)
        self.gone()

    def test_a_new_version_replaces_files_beside_those_in_use(self):
        guard = pathlib.Path("/opt/ration/lib/ration/shim/libcuda.so.1")
        self.cluster.start_pod(self, "older", "ration-workload", "hold", "3GiB")
        self.known("older", 3 * GIB + 64 * MIB)
        before = guard.read_bytes()
        with open("/tmp/daemon/usr/lib/ration/shim/libcuda.so.1", "ab") as file:
            file.write(b"of the next version")
        self.cluster.import_image("/tmp/daemon", "ration.test/ration:2", ["/usr/bin/ration"])
        self.cluster.kubectl("-n", "ration-system", "set", "image", "daemonset/rationd", "*=ration.test/ration:2", check=True)
        one_node.until(lambda: guard.read_bytes() != before and list(self.pods().values()) == [True], "the new version is there and ready")
        self.assertEqual(guard.read_bytes(), before + b"of the next version")
        self.known("older", 3 * GIB + 64 * MIB)
        self.holds("older")
        self.assertIn("libcuda.so.1 (deleted)", self.cluster.kubectl("exec", "older", "--", "cat", "/proc/1/maps").stdout)
        self.assertEqual(self.cluster.kubectl("exec", "older", "--", "grep", "-c", "of the next version", "/.ration/guard/libcuda.so.1").stdout, "1\n")
        self.cluster.start_pod(self, "newer", "sleep", "100000")
        self.holds("newer")
        self.cluster.kubectl("delete", "pod", "older", "newer", "--force", "--grace-period=0", check=True)
        self.gone()
        self.cluster.install(self.overlay)
        one_node.until(lambda: guard.read_bytes() == before and list(self.pods().values()) == [True], "the version before is there and ready again")

    def test_pods_keep_their_limit_when_the_daemon_is_removed(self):
        self.cluster.start_pod(self, "outlives", "ration-workload", "hold", "3GiB")
        self.known("outlives", 3 * GIB + 64 * MIB)
        self.cluster.kubectl("delete", "-k", self.overlay / "base/daemon", check=True)
        one_node.until(lambda: not self.pods(), "rationd is gone")
        self.assertRaises(OSError, self.workloads)
        self.holds("outlives")
        self.assertTrue(pathlib.Path("/opt/ration/lib/ration/shim/libcuda.so.1").exists())
        self.cluster.install(self.overlay)
        self.known("outlives", 3 * GIB + 64 * MIB)
        self.holds("outlives")
        self.cluster.kubectl("delete", "pod", "outlives", "--force", "--grace-period=0", check=True)
        self.gone()

    def test_a_node_that_has_the_package_gets_no_second_daemon(self):
        self.cluster.kubectl("label", "node", one_node.NODE, "ration.sh/rationd=package", check=True)
        one_node.until(lambda: not self.pods(), "rationd's pod leaves the node")
        self.cluster.kubectl("label", "node", one_node.NODE, "ration.sh/rationd-", check=True)
        one_node.until(lambda: list(self.pods().values()) == [True], "and is there again")


if __name__ == "__main__":
    unittest.main()
