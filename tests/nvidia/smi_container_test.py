#!/usr/bin/env python3
"""NVIDIA's nvidia-smi in a container that has a tenant's device: it shows the tenant's limit, and of processes those of the container."""
import os
import sys
import unittest

from drivers import BUILD, HERE, NONE_HERE, SOURCE
from smi_test import COMPUTING, MEMORY, VIEWS, smi_of

os.environ.setdefault("BUILD_BIN", str(BUILD / "bin"))
sys.path.insert(0, str(SOURCE / "tests/system"))
from containers.containers_test import IMAGE, OfEngine  # noqa: E402
from containers.engines import Podman, in_own_mounts, own_mounts  # noqa: E402
from node.node_case import Case  # noqa: E402
from node_client import MIB  # noqa: E402

HELD, LIMIT = 1024, 4096  # MiB
# With the variables by which the container's first process finds the simulated driver: Podman gives them to no other one.
AS_THE_FIRST = r'exec env $(busybox tr "\0" "\n" < /proc/1/environ) "$@"'


class InAContainer(OfEngine, Case):
    engine_class = Podman

    def test_each_view_shows_the_tenants_limit_and_the_containers_processes(self):
        mounted = [word for release in HERE for word in ("-v", f"{smi_of(release)}:/usr/bin/nvidia-smi-{release}:ro")]
        done = self.engine.call("run", "--detach", "--name", "holder", *mounted, "--device", "ration.sh/tenant=nlp", IMAGE, "ration-workload", "hold", f"{HELD}MiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.engine.remove, "holder")
        row = self.until(lambda: next((row for row in self.get("/api/v1/workloads") if row["used_bytes"] > HELD * MIB), None), "it holds its memory")
        used = row["used_bytes"] // MIB
        for release in HERE:
            with self.subTest(release=release):
                shown = {}
                for view in VIEWS:
                    done = self.engine.execute("holder", "sh", "-c", AS_THE_FIRST, "sh", f"nvidia-smi-{release}", *view)
                    self.assertEqual((done.returncode, done.stderr), (0, ""), (view, done.stdout[-400:]))
                    shown[" ".join(view)] = done.stdout
                self.assertEqual(shown[" ".join(MEMORY)], f"{LIMIT}, {used}, {LIMIT - used}\n")
                self.assertEqual(shown[" ".join(COMPUTING)], f"1, {used}\n")
                self.assertRegex(shown[""], rf" {used}MiB / +{LIMIT}MiB ")


if __name__ == "__main__":
    if not HERE or Podman.missing() or not own_mounts():
        print("skipped: needs root and " + ", ".join(Podman.missing() or ["Podman"]) if HERE else NONE_HERE)
        sys.exit(77)
    if "RATION_TEST_OWN_MOUNTS" not in os.environ:
        os.environ["RATION_TEST_OWN_MOUNTS"] = "1"
        in_own_mounts([sys.executable, *sys.argv])
    unittest.main(verbosity=2)
