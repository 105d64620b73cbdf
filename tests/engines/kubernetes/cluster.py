"""The cluster of `ration demo --scenario kubernetes` for tests, from programs that `./dev test kubernetes` makes."""
import os
import pathlib
import sys

SOURCE = pathlib.Path(os.environ["SOURCE"])
TESTED = pathlib.Path(os.environ["BUILD_BIN"]).parent
IS_PACKAGE = (TESTED / "lib/ration").exists()  # which has manifests of its own; else it is a build
MINOR = os.environ.get("RATION_TEST_KUBERNETES")  # as 1.36; the newest where it says none
PROGRAMS = SOURCE / "build/kubernetes" / (f"cluster-{MINOR}" if MINOR else "cluster")
LOGS = SOURCE / "build/kubernetes/log" / PROGRAMS.name / pathlib.Path(sys.argv[0]).stem  # of every program, until the test runs again
os.environ.setdefault("RATION_TEST_CASE_SECONDS", "900")
os.environ["KUBERNETES_BIN"] = f"{PROGRAMS}:{PROGRAMS.parent}"

sys.dont_write_bytecode = True  # share goes into packages
sys.path.insert(0, str((TESTED if IS_PACKAGE else SOURCE) / "share/ration/scenarios"))
from kubernetes_cluster import NODE, in_own_namespaces, run, until  # noqa: E402, F401: for the tests
import kubernetes_cluster  # noqa: E402


def missing():
    """What is not there; empty: a cluster can be started."""
    return kubernetes_cluster.missing() if os.geteuid() == 0 else ["root"]
