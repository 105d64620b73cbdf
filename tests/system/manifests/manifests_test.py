#!/usr/bin/env python3
"""What an administrator of a cluster installs, as kubectl builds it, without a cluster."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

SHARE = pathlib.Path(os.environ["SOURCE"]) / "share/ration"
KUBECTL = shutil.which("kubectl")


def kinds(text):
    return sorted(re.findall(r"^kind: (\w+)$", text, re.M))


@unittest.skipIf(KUBECTL is None, "kubectl is not there")
class Kustomized(unittest.TestCase):
    def built(self, folder):
        done = subprocess.run([KUBECTL, "kustomize", SHARE / folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_monitoring_is_what_prometheus_scrapes_and_its_rules(self):
        built = self.built("kubernetes/monitoring")
        self.assertEqual(kinds(built), ["PodMonitor", "PrometheusRule"])
        selected = re.search(r"matchLabels:\n +(\S+: \S+)\n", built)[1]
        pods = re.search(r"template:\n +metadata:\n +labels:\n((?: {8}.*\n)+)", self.built("kubernetes"))[1]
        self.assertIn(selected, pods)
        for name in re.findall(r"(?:alert|record): (\S+)", "".join(path.read_text() for path in (SHARE / "prometheus").glob("*.yml"))):
            self.assertRegex(built, rf"(alert|record): {name}\n")

    def test_the_dashboards_are_a_config_map_of_grafanas_sidecar(self):
        built = self.built("grafana")
        self.assertEqual(kinds(built), ["ConfigMap"])
        self.assertIn('grafana_dashboard: "1"', built)
        self.assertEqual(set(re.findall(r"^  (\w+\.json): \|", built, re.M)), {path.name for path in (SHARE / "grafana").glob("*.json")})


if __name__ == "__main__":
    unittest.main(verbosity=2)
