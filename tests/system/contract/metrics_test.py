#!/usr/bin/env python3
"""The metrics of a real daemon: well formed, described, and all that the shipped rules and the dashboard ask for."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from scene import Scene  # first: it says where the next is
from node_client import GIB, MIB, SOURCE, free_ports, own_folder, until  # isort: skip

SHARE = SOURCE / "share/ration"
RULES = SHARE / "prometheus"
# Only the binary is wanted: the package's service would watch the machine.
PROMTOOL = next((path for path in (pathlib.Path("/usr/bin/promtool"), SOURCE / "build/prometheus/usr/bin/promtool") if path.exists()), None)
# A minute of steady growth is needed: tests/unit/node has their clock.
NEED_A_MINUTE = {"ration_device_time_to_full_seconds", "ration_time_to_limit_seconds"}
DASHBOARDS = {path.name: json.loads(path.read_text()) for path in sorted((SHARE / "grafana").glob("*.json"))}
PROMETHEUS_OWN = {"up"}
MONITORING = SHARE / "kubernetes/monitoring"
# What Prometheus knows of pods of ration-kubernetes, and what the Prometheus Operator makes of it ahead of a PodMonitor's own relabelings.
POD_OF_RATION = """
  static_configs:
  - targets: ["192.0.2.7:9"]
    labels:
      __meta_kubernetes_namespace: ration-system
      __meta_kubernetes_pod_name: ration-kubernetes-x7f2q
      __meta_kubernetes_pod_container_name: dra
      __meta_kubernetes_pod_host_ip: 127.0.0.1
      __meta_kubernetes_pod_node_name: gpu-node
  - targets: ["192.0.2.8:9"]
    labels: {__meta_kubernetes_pod_host_ip: "2001:db8::7", __meta_kubernetes_pod_node_name: other-node}
  relabel_configs:
  - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
  - {source_labels: [__meta_kubernetes_pod_container_name], target_label: container}
  - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
  - {target_label: job, replacement: ration-system/ration}
"""
# All nodes' /metrics, and what the page of all nodes says of them. All are of job ration.
FLEET = {
    'ration_device_available_bytes{instance="a",gpu="0"}': 30 * GIB, 'ration_device_available_bytes{instance="a",gpu="1"}': 19 * GIB, 'ration_device_available_bytes{instance="b",gpu="0"}': 20 * GIB,
    'ration_queue_bytes{instance="b",tenant="nlp"}': 12 * GIB,
    'ration_workload_memory_bytes{instance="a",tenant="nlp",workload="rests",gpu="0"}': 8 * GIB, 'ration_workload_idle_seconds{instance="a",tenant="nlp",workload="rests",gpu="0"}': 1801,
    'ration_workload_memory_bytes{instance="a",tenant="nlp",workload="works",gpu="0"}': 9 * GIB, 'ration_workload_idle_seconds{instance="a",tenant="nlp",workload="works",gpu="0"}': 1799,
    'ration_workload_memory_bytes{instance="b",tenant="nlp",workload="works",gpu="0"}': 7 * GIB, 'ration_workload_waiting{instance="b",tenant="nlp",workload="works",gpu="0"}': 1,
    'ration_workload_waiting{instance="a",tenant="nlp",workload="works",gpu="0"}': 0,
    'ration_workload_guarantee_bytes{instance="a",tenant="nlp",workload="works",gpu="0"}': 9 * GIB, 'ration_workload_guarantee_bytes{instance="b",tenant="nlp",workload="works",gpu="0"}': 10 * GIB,
    'ration_workload_info{instance="a",tenant="nlp",workload="works",namespace="ml",pod="train-0",container="main"}': 1, 'ration_workload_info{instance="b",tenant="nlp",workload="works"}': 1,
}
ANSWERS = {
    "GPUs with room for $size GiB": {"{}": 2},
    "Who has room for $size GiB": {'ration_device_available_bytes{instance="a",gpu="0"}': 30 * GIB, 'ration_device_available_bytes{instance="b",gpu="0"}': 20 * GIB},
    "Who waits in the queue": {'ration_queue_bytes{instance="b",tenant="nlp"}': 12 * GIB},
    "Whose requests wait": {'ration_workload_memory_bytes{instance="b",tenant="nlp",workload="works",gpu="0"}': 7 * GIB},
    "Held and idle": {"{}": 8 * GIB},
    "Who holds idle memory": {'ration_workload_memory_bytes{instance="a",tenant="nlp",workload="rests",gpu="0"}': 8 * GIB},
    "Who keeps memory and does not hold it": {'{instance="b",tenant="nlp",workload="works",gpu="0"}': 3 * GIB},
    "Memory by namespace": {'{namespace="ml"}': 9 * GIB},
}
scene = None


def without_variables(expression):
    for name, value in {"__range": "6h", "size": "20", "idle": "30"}.items():
        expression = re.sub(rf"\${name}\b", value, expression)
    return expression


def setUpModule():
    global scene
    scene = Scene()


def tearDownModule():
    scene.end()


class Metrics(unittest.TestCase):
    def setUp(self):
        self.text = scene.raw("GET", "/metrics", tcp=True, Authorization="Bearer " + scene.token)[2]
        self.types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", self.text, re.M))
        self.labels = {}  # of each family, without the histogram's own
        self.samples = {}
        for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", self.text, re.M):
            pairs = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
            family = name if name in self.types else re.sub(r"_(bucket|sum|count)$", "", name)
            self.labels.setdefault(family, set()).update(set(pairs) - {"le"})
            self.samples[(name, *sorted(pairs.items()))] = float(value)

    def value(self, name, **labels):
        return self.samples[(name, *sorted(labels.items()))]

    def names(self):
        """What may be asked for: a histogram by its parts."""
        return {name + part for name, kind in self.types.items() for part in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))}

    def promtool(self, *arguments, **options):
        if PROMTOOL is None:
            self.skipTest("promtool is not there (./dev test fetches Debian's package prometheus)")
        return subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True, **options)

    # -------------------------------------------------------------------------------------------------------- the values

    def test_every_family_has_a_sample_and_each_stands_once(self):
        declared = re.findall(r"^# TYPE (\S+)", self.text, re.M)
        self.assertEqual(len(declared), len(set(declared)))
        self.assertEqual(set(self.types) - set(self.labels), NEED_A_MINUTE)
        lines = [line.split(" ")[0] for line in self.text.splitlines() if not line.startswith("#")]
        self.assertEqual(len(lines), len(set(lines)))

    def test_they_say_what_is_there(self):
        self.assertEqual(self.value("ration_tenant_memory_bytes", tenant="nlp", gpu="0", kind="live"), 2 * GIB)
        self.assertEqual(self.value("ration_tenant_limit_bytes", tenant="nlp", gpu="0"), 5 * GIB)
        self.assertEqual(self.value("ration_tenant_headroom_bytes", tenant="nlp", gpu="0"), 3 * GIB - 64 * MIB)
        self.assertEqual([self.value(f"ration_tenant_configured_{what}_bytes", tenant="nlp", gpu=gpu) for gpu in ("0", "1") for what in ("limit", "guarantee")], [12 * GIB, 2 * GIB] * 2)
        self.assertNotIn(("ration_tenant_configured_limit_bytes", ("gpu", "0"), ("tenant", "vision")), self.samples)
        self.assertEqual(self.value("ration_ungoverned_memory_bytes", gpu="0"), GIB + 64 * MIB)
        self.assertEqual(self.value("ration_queue_length"), 1)
        self.assertEqual(sum(value for (name, *_), value in self.samples.items() if name == "ration_queue_bytes"), 11 * GIB)
        self.assertEqual(self.value("ration_workload_info", workload="train", tenant="nlp", namespace="research", pod="train-0", container="main"), 1)
        self.assertEqual(self.value("ration_workload_info", workload="serve", tenant="vision"), 1)
        self.assertEqual([self.value(f"ration_workload_{what}_bytes", workload="train", tenant="nlp", gpu="0") for what in ("memory", "limit", "guarantee")],
                         [2 * GIB + 64 * MIB, 5 * GIB, GIB])
        self.assertGreater(self.value("ration_workload_idle_seconds", workload="train", tenant="nlp", gpu="0"), 0)
        self.assertEqual(self.value("ration_workload_waiting", workload="train", tenant="nlp", gpu="0"), 0)
        self.assertEqual(self.value("ration_denied_total", tenant="vision", gpu="0", reason="limit"), 2)
        self.assertEqual([self.value("ration_denied_total", tenant="nlp", gpu=gpu, reason=reason) for gpu in ("0", "1") for reason in ("limit", "device_full")], [0] * 4)
        self.assertEqual(self.value("ration_denied_bytes_total", tenant="nlp", gpu="1"), 0)
        self.assertEqual(self.value("ration_config_last_reload_successful"), 1)
        self.assertLessEqual(abs(self.value("ration_config_last_reload_success_timestamp_seconds") - time.time()), 3600)
        self.assertEqual(self.value("ration_denied_bytes_total", tenant="vision", gpu="0"), 2 * GIB + 1000 * MIB)
        self.assertEqual(self.value("ration_guard_up", tenant="vision"), 2)
        self.assertEqual(self.value("ration_violations_total", tenant="vision"), 1)
        self.assertEqual([self.value("ration_unlisted_functions", tenant=tenant) for tenant in ("nlp", "vision")], [0, 1])
        devices = {device["gpu"]: device for device in scene.get("/api/v1/devices")["data"]}
        self.assertEqual(self.value("ration_device_temperature_celsius", gpu="1"), devices[1]["temperature_celsius"])

    def test_waits_are_those_of_the_lease_that_was_granted_and_of_the_refusal_after_one(self):
        self.assertEqual(self.value("ration_wait_seconds_count", kind="queue"), 1)
        self.assertEqual(self.value("ration_wait_seconds_bucket", kind="queue", le="+Inf"), 1)
        self.assertEqual(self.value("ration_wait_seconds_count", kind="denied"), 1)
        waited = scene.events("waited")[0]["why"]["waited_seconds"]
        self.assertAlmostEqual(self.value("ration_wait_seconds_sum", kind="denied"), waited)
        self.assertGreaterEqual(waited, 0.2)

    def test_counters_grow(self):
        name, labels = "ration_byte_seconds_total", {"tenant": "nlp", "gpu": "0", "basis": "used"}
        before = {sample: value for sample, value in self.samples.items() if self.types.get(sample[0]) == "counter"}
        self.assertGreater(len(before), 10)
        used = self.value(name, **labels)
        self.assertGreater(used, 0)
        until(lambda: self.setUp() or self.value(name, **labels) > used, "more byte-seconds")
        self.assertEqual([sample for sample, value in before.items() if self.samples[sample] < value], [], "a counter only grows")

    def test_they_are_well_formed(self):
        done = self.promtool("check", "metrics", input=self.text)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    # ------------------------------------------------------------------------------------------------ what describes them

    def test_the_page_lists_exactly_these(self):
        rows = re.findall(r"^\| `(ration_\w+)` \| (\w+) \| ([^|]*) \| \S", (SOURCE / "docs/metrics.md").read_text(), re.M)
        self.assertEqual(dict(row[:2] for row in rows), self.types)
        self.assertEqual(len(rows), len(self.types))
        for name, _, labels in rows:
            if name in self.labels:
                self.assertEqual(set(labels.replace("-", "").split()), self.labels[name], name)

    def test_the_page_lists_exactly_the_alerts(self):
        rows = re.findall(r"^\| `(Ration\w+)` \| .* \| (\w+) \|$", (SOURCE / "docs/metrics.md").read_text(), re.M)
        self.assertEqual(rows, re.findall(r"alert: (\w+)\n.*?severity: (\w+)", (RULES / "alerts.yml").read_text(), re.S))

    # ------------------------------------------------------------------------------------------------ what asks for them

    def asked(self):
        """Where it is asked, and the expression."""
        for path in sorted(RULES.glob("*.yml")):
            for expression in re.findall(r"^ +expr: (.*)$", path.read_text(), re.M):
                yield path.name, expression
        for dashboard in DASHBOARDS.values():
            for panel in dashboard["panels"]:
                for target in panel.get("targets", []):
                    yield panel["title"], target["expr"]
            for variable in dashboard["templating"]["list"]:
                if variable["type"] == "query":
                    yield variable["name"], variable["query"]["query"]

    def test_what_is_asked_for_is_there(self):
        recorded = set(re.findall(r"record: (\S+)", (RULES / "recording.yml").read_text()))
        asked_for = set()
        for where, expression in self.asked():
            plain = re.sub(r'"[^"]*"', '""', expression)
            names = set(re.findall(r"(?<![\w:])(?:ration_\w+|ration:[\w:]+|up(?=\{))", plain))
            self.assertTrue(names, f"{where}: {expression}")
            self.assertEqual(names - self.names() - recorded - PROMETHEUS_OWN, set(), f"{where}: {expression}")
            asked_for |= names
            for name, selector in re.findall(r"(ration_\w+)\{([^}]*)\}", plain):
                family = name if name in self.types else re.sub(r"_(bucket|sum|count)$", "", name)
                labels = set(re.findall(r"(\w+)=", selector)) - {"job", "instance", "le"}
                if family in self.labels:
                    self.assertEqual(labels - self.labels[family], set(), f"{where}: {expression}")
        families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked_for}
        only_on_request = {"ration_process_memory_bytes", "ration_processes_truncated"}
        self.assertEqual(set(self.types) - families, only_on_request, "a metric that neither a rule nor a panel shows")

    def test_values_of_labels_that_are_asked_for_are_there(self):
        for where, expression in self.asked():
            for name, selector in re.findall(r"(ration_\w+)\{([^}]*)\}", expression):
                for label, value in re.findall(r'(\w+)="([^"$]*)"', selector):
                    if label != "job":
                        self.assertIn((label, value), {pair for sample in self.samples if sample[0] == name for pair in sample[1:]}, f"{where}: {expression}")

    def test_the_dashboards_are_some(self):
        self.assertEqual(len({dashboard["uid"] for dashboard in DASHBOARDS.values()}), len(DASHBOARDS))
        for name, dashboard in DASHBOARDS.items():
            with self.subTest(name):
                panels = dashboard["panels"]
                self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
                places = set()
                for panel in panels:
                    place = panel["gridPos"]
                    self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
                    cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
                    self.assertFalse(cells & places, f"{panel['title']} lies over another panel")
                    places |= cells
                variables = {variable["name"] for variable in dashboard["templating"]["list"]}
                used = set(re.findall(r"\$\{?(\w+)", json.dumps([panels, dashboard["templating"]])))
                self.assertEqual(used - {"__range", "__all"}, variables)

    def test_every_expression_of_the_dashboard_can_be_read(self):
        rules = [{"record": f"panel:{number}", "expr": without_variables(expression)} for number, (_, expression) in
                 enumerate(each for each in self.asked() if not each[1].startswith("label_values"))]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump({"groups": [{"name": "panels", "rules": rules}]}, file)  # JSON is YAML
            file.flush()
            done = self.promtool("check", "rules", file.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_page_of_all_nodes_says_who_has_room_who_waits_and_who_holds_idle_memory(self):
        def of_job(series):
            return series.replace("{instance", '{job="ration",instance')

        asked = {panel["title"]: panel["targets"][0]["expr"] for panel in DASHBOARDS["fleet.json"]["panels"]}
        cases = {"rule_files": [str(path) for path in sorted(RULES.glob("*.yml"))], "evaluation_interval": "1m", "tests": [{
            "interval": "1m", "input_series": [{"series": of_job(series), "values": f"{value}x5"} for series, value in FLEET.items()],
            "promql_expr_test": [{"expr": without_variables(asked[title]), "eval_time": "2m", "exp_samples": [{"labels": of_job(labels), "value": value} for labels, value in answer.items()]}
                                 for title, answer in ANSWERS.items()]}]}
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump(cases, file)
            file.flush()
            done = self.promtool("test", "rules", file.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_rules_for_kubernetes_are_the_same(self):
        made = subprocess.run([sys.executable, RULES / "to_kubernetes.py"], capture_output=True, text=True, check=True)
        self.assertEqual((MONITORING / "rules.yaml").read_text(), made.stdout, "python3 share/ration/prometheus/to_kubernetes.py > share/ration/kubernetes/monitoring/rules.yaml")

    def test_a_prometheus_that_the_pod_monitor_configures_knows_nodes_and_pods(self):
        if PROMTOOL is None or not PROMTOOL.with_name("prometheus").exists():
            self.skipTest("prometheus is not there (./dev test fetches Debian's package)")
        monitor = (MONITORING / "monitor.yaml").read_text()
        self.assertIn("path: /metrics", monitor)
        relabelings = monitor.split("relabelings:\n")[1].replace("sourceLabels", "source_labels").replace("targetLabel", "target_label")
        self.assertIn(":7077", relabelings)
        folder, (port,) = own_folder(self), free_ports(1)
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{RULES}/*.yml]\nscrape_configs:\n- job_name: podMonitor/ration-system/ration/0\n  authorization: {{credentials: {scene.token}}}"
            f"{POD_OF_RATION}{relabelings.replace(':7077', f':{scene.port}').replace('    - ', '  - ')}")
        log = open(folder / "log", "w")
        self.addCleanup(log.close)
        server = subprocess.Popen([PROMTOOL.with_name("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                  stdout=log, stderr=log)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)

        def told(path):
            return json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}"))["data"]

        def labels(query):
            try:
                return [row["metric"] for row in told("query?query=" + urllib.parse.quote(query))["result"]]
            except urllib.error.URLError:  # it has not started yet
                self.assertIsNone(server.poll(), (folder / "log").read_text())
                return []

        pod = {"job": "ration", "instance": "gpu-node", "gpu": "0", "namespace": "research", "pod": "train-0"}
        until(lambda: labels("ration:pod_memory_bytes:sum") == [dict(pod, __name__="ration:pod_memory_bytes:sum")], "the pod's memory is recorded")
        self.assertEqual(labels("ration_queue_length"), [{"__name__": "ration_queue_length", "job": "ration", "instance": "gpu-node"}])
        self.assertEqual({target["labels"]["instance"]: target["scrapeUrl"] for target in told("targets")["activeTargets"]},
                         {"gpu-node": f"http://127.0.0.1:{scene.port}/metrics", "other-node": f"http://[2001:db8::7]:{scene.port}/metrics"})

    def test_the_rules_are_rules(self):
        done = self.promtool("check", "rules", *sorted(RULES.glob("*.yml")))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_alert_fires_when_it_should_and_only_then(self):
        cases = (pathlib.Path(__file__).parent / "rules_test.yml").read_text()
        for name in re.findall(r"alert: (\w+)", (RULES / "alerts.yml").read_text()):
            self.assertRegex(cases, rf"alertname: {name}, exp_alerts: \[\]", "a time at which it does not fire")
            self.assertRegex(cases, rf"alertname: {name}\n +exp_alerts:\n +- exp_labels", "a time at which it fires")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rules_test.yml"
            path.write_text(cases.replace("SHARE/", f"{RULES}/"))
            done = self.promtool("test", "rules", path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
