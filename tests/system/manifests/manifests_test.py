#!/usr/bin/env python3
"""What an administrator of a cluster installs, as kubectl builds it, without a cluster."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE"])
SHARE = SOURCE / "share/ration"
KUBECTL = shutil.which("kubectl") or shutil.which("kubectl", path=SOURCE / "build/kubernetes/cluster")
CHART = SHARE / "kubernetes"
HELMS = sorted((SOURCE / "build/helm").glob("*/helm"))
IMAGE = "registry.test/ration-kubernetes"


def kinds(text):
    return sorted(re.findall(r"^kind: (\w+)$", text, re.M))


@unittest.skipIf(KUBECTL is None, "kubectl is not there (./dev test kubernetes makes it)")
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

    def test_rationd_in_a_pod_is_asked_for_and_has_the_paths_of_its_node(self):
        self.assertEqual(kinds(self.built("kubernetes")).count("DaemonSet"), 1)
        built = self.built("kubernetes/daemon")
        self.assertEqual(kinds(built), ["DaemonSet"])
        there = {name: path for path, name in re.findall(r"hostPath:\n +path: (\S+)\n(?: +type: \S+\n)? +name: (\S+)\n", built)}
        mounted = {(name, path) for path, name in re.findall(r"mountPath: (\S+)\n(?: +mountPropagation: \S+\n)? +name: (\S+)\n", built)}
        self.assertEqual(mounted - {("driver", "/usr/local/nvidia/lib64")}, set(there.items()) - {("driver", "/usr/lib/x86_64-linux-gnu")})
        self.assertIn(f"- {there['package']}/bin/ration\n", built)
        self.assertEqual(built.count("privileged: true"), 1)

    def test_the_dashboards_are_a_config_map_of_grafanas_sidecar(self):
        built = self.built("grafana")
        self.assertEqual(kinds(built), ["ConfigMap"])
        self.assertIn('grafana_dashboard: "1"', built)
        self.assertEqual(set(re.findall(r"^  (\w+\.json): \|", built, re.M)), {path.name for path in (SHARE / "grafana").glob("*.json")})


@unittest.skipIf(not HELMS, "helm is not there (./dev test kubernetes makes it)")
class Chart(unittest.TestCase):
    """The chart is the folder of the manifests: what it makes of them."""

    def helm(self, *words, program=None):
        return subprocess.run([program or HELMS[-1], *map(str, words)], capture_output=True, text=True)

    def made(self, *settings):
        done = self.helm("template", "ration", CHART, "--kube-version", "1.36.0", "--set", f"image.repository={IMAGE}", *settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def objects(self, text):
        return {(re.search(r"^kind: (\w+)$", each, re.M)[1], re.search(r"^metadata:\n(?:  .*\n)*?  name: (\S+)$", each, re.M)[1]): each for each in re.split(r"^---$", text, flags=re.M) if "kind: " in each}

    def test_helm_finds_nothing_wrong(self):
        done = self.helm("lint", "--strict", CHART, "--set", f"image.repository={IMAGE}", "--set", "monitoring.enabled=true")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipIf(KUBECTL is None, "kubectl is not there")
    def test_it_installs_what_kubectl_does(self):
        """Both in the one form in which kustomize prints objects."""
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            (place / "chart").mkdir()
            (place / "chart/all.yaml").write_text(self.made("--set", "monitoring.enabled=true"))
            (place / "chart/kustomization.yaml").write_text("resources: [all.yaml]\nsortOptions: {order: legacy}\n")
            shutil.copytree(CHART, place / "kubernetes")
            version = (SOURCE / "VERSION").read_text().strip()
            (place / "kustomization.yaml").write_text(f"resources: [kubernetes, kubernetes/monitoring]\nsortOptions: {{order: legacy}}\n"
                                                      f"images: [{{name: ration-kubernetes, newName: {IMAGE}, newTag: {version}}}]\n")
            by_chart, by_kubectl = (subprocess.run([KUBECTL, "kustomize", each], capture_output=True, text=True, check=True).stdout for each in (place / "chart", place))
        self.assertEqual(by_chart, by_kubectl)

    def test_values_reach_what_they_are_about(self):
        plain = self.objects(self.made())
        node, account, sizes = ("DaemonSet", "ration-kubernetes"), ("ServiceAccount", "ration"), ("ConfigMap", "claim-sizes")
        for value, where, expected in (("image.tag=v7", node, f"image: {IMAGE}:v7\n"), ("imagePullPolicy=Never", node, "imagePullPolicy: Never\n"), ("imagePullSecrets[0].name=key", node, "- name: key\n"),
                                       ("nodeSelector.pool=gpu", node, "nodeSelector:\n        pool: gpu\n"), ("tolerations[0].key=gpu", node, "tolerations:\n      - key: gpu\n"),
                                       ("priorityClassName=low", node, "priorityClassName: low\n"), ("resources.limits.memory=1Gi", node, "limits:\n            memory: 1Gi\n"),
                                       ("gpuKind=nvidia.com/gpu", node, "- dra\n        - --gpu-kind\n        - nvidia.com/gpu\n"), ("serviceAccount.annotations.team=ml", account, "annotations:\n    team: ml\n"),
                                       ("claimSizes.largest=80Gi", sizes, "largest: 80Gi\n  smallest: 512Mi\n")):
            with self.subTest(value):
                made = self.objects(self.made("--set", value))
                self.assertIn(expected, made[where])
                self.assertNotIn(expected, plain[where])
                self.assertEqual({name for name in made if made[name] != plain[name]}, {where})
        watched = self.objects(self.made("--set", "monitoring.enabled=true", "--set", "monitoring.labels.release=prometheus"))
        self.assertEqual(set(watched) - set(plain), {("PodMonitor", "ration"), ("PrometheusRule", "ration")})
        for name in set(watched) - set(plain):
            self.assertIn("labels:\n    release: prometheus\n", watched[name])

    def test_what_is_missing_unknown_or_no_such_value_is_named(self):
        """By every release of Helm in its own words."""
        for program in HELMS:
            for value, name in (("global.none=1", "--set image.repository=REGISTRY/ration-kubernetes"),
                                *((f"image.repository={IMAGE},{value}", name) for value, name in (
                                    ("nodeselector.pool=gpu", "nodeselector"), ("nodeSelector.pool=1", r"nodeSelector[./]pool"), ("image.name=ration", "name"), ("image.tag=7", r"image[./]tag"),
                                    (f"image.repository={IMAGE}:1", r"image[./]repository"), ("imagePullPolicy=Sometimes", "imagePullPolicy"), ("imagePullSecrets[0].key=registry", "key"),
                                    ("tolerations[0].ky=gpu", "ky"), ("tolerations[0].effect=NoRun", r"tolerations[./]0[./]effect"), ("resources.limit.memory=1Gi", "limit"), ("gpuKind=nvidia", "gpuKind"),
                                    ("claimSizes.largest=80", r"claimSizes[./]largest"), ("claimSizes.smallest=much", r"claimSizes[./]smallest"), ("claimSizes.biggest=80Gi", "biggest"),
                                    ("monitoring.enabled=perhaps", r"monitoring[./]enabled")))):
                with self.subTest(program=program, value=value):
                    done = self.helm("template", "ration", CHART, "--kube-version", "1.36.0", "--set", value, program=program)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertRegex(done.stderr, name)

    def test_values_that_people_have_are_taken(self):
        for value in ("image.repository=localhost:5000/ml/ration-kubernetes", "image.repository=ration-kubernetes", "image.tag=0.1.0@sha256:0", "claimSizes.smallest=1.5Gi", "gpuKind=nvidia.com/gpu",
                      "resources.requests.cpu=10m", "tolerations[0].effect=NoSchedule"):
            with self.subTest(value):
                self.made("--set", value)


if __name__ == "__main__":
    unittest.main(verbosity=2)
