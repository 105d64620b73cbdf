#!/usr/bin/env python3
"""A real Prometheus watches real daemons through a day on which everything goes wrong: each shipped alert fires then, not before and not afterwards, and each query of the dashboards has an answer."""
import json
import re
import sys
import time
import unittest

from day import PROMETHEUS, RULES, SHARE, Day, shortened

DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((SHARE / "grafana").glob("*.json"))}
# What a person chooses: rooms for which the small nodes of this day are large enough, and a short idleness.
CHOSEN = {"size": "2", "idle": "0.05", "__range": "6h"}
ALL_IS_WELL = {"Accounts without samples"}  # has 0 at all times: it takes a thousand workloads
WITHOUT_DRIVER = {"driver": ""}  # a daemon that finds no GPU knows of none
day = None


def setUpModule():
    global day
    day = unittest.enterModuleContext(Day())


def variables(dashboard):
    """The values that Grafana puts in: of a list, that of "All"."""
    return CHOSEN | {variable["name"]: variable["allValue"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"}


def with_values(text, values):
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], text)


def queries():
    """(dashboard, panel, target, expression as Grafana sends it)"""
    for dashboard in DASHBOARDS.values():
        values = variables(dashboard)
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                yield dashboard, panel, target, with_values(target["expr"], values)


class Rules(unittest.TestCase):
    def test_every_duration_is_shortened(self):
        for path in RULES:
            text = path.read_text()
            self.assertEqual(re.findall(r"\b\d+[smhd]\b", re.sub(r"#.*|(?:description|summary|record|command): .*", "", shortened(text))), [], path.name)
            self.assertNotEqual(text, shortened(text))

    def test_every_rule_is_evaluated_without_an_error(self):
        self.assertEqual([rule for rule in day.rules() if rule["health"] != "ok"], [])

    def test_every_recording_rule_has_values(self):
        names = [rule["name"] for rule in day.rules() if rule["type"] == "recording"]
        self.assertEqual(len(names), RULES[0].read_text().count("record:"))
        for name in names:
            self.assertTrue(any(float(value) > 0 for series in day.over_the_day(name) for _, value in series["values"] if value != "NaN"), name)

    def test_every_alert_fires_and_none_before_something_is_wrong(self):
        alerts = {rule["name"] for rule in day.rules() if rule["type"] == "alerting"}
        self.assertEqual(alerts, set(re.findall(r"alert: (\w+)", RULES[1].read_text())))
        fired = day.over_the_day('ALERTS{alertstate="firing"}')
        self.assertEqual([series["metric"] for series in fired if series["values"][0][0] <= day.silent_until], [])
        self.assertEqual({series["metric"]["alertname"] for series in fired}, alerts)

    def test_what_an_alert_says_is_complete(self):
        for name, (annotations, _) in day.said.items():
            for text in annotations.values():
                self.assertNotRegex(text, r"<|%!|NaN|Inf|  |\{\{", name)

    def test_the_command_of_an_alert_runs_on_its_node(self):
        for name, (annotations, _) in day.said.items():
            with self.subTest(name):
                if annotations["command"].startswith("systemctl "):  # these daemons are not the system's
                    continue
                done = day.done[name]
                self.assertIn(done.returncode, (0, 1) if "doctor" in annotations["command"] else (0,), f"{done.args}: {done.stderr}")  # 1: doctor has found it
                self.assertTrue(done.stdout.strip(), done.args)


class Dashboards(unittest.TestCase):
    def test_every_list_has_entries(self):
        for dashboard in DASHBOARDS.values():
            for variable in dashboard["templating"]["list"]:
                if variable["type"] != "query":
                    continue
                series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
                values = day.ask(f"label/{label}/values", **{"match[]": with_values(series, variables(dashboard)), "start": day.began, "end": time.time()})
                self.assertTrue(values, variable["name"])

    def test_every_query_has_data_at_some_time(self):
        for _, panel, target, expression in queries():
            with self.subTest(f"{panel['title']} {target['refId']}"):
                values = [float(value) for series in day.over_the_day(expression) for _, value in series["values"]]
                self.assertTrue(values, expression)
                if panel["title"] not in ALL_IS_WELL:
                    self.assertTrue(any(value > 0 for value in values), f"nothing but 0: {expression}")

    def test_every_line_has_a_name_of_its_own(self):
        for dashboard in DASHBOARDS.values():
            for panel in dashboard["panels"]:
                lines = {}
                for target in panel.get("targets", []):
                    for series in day.over_the_day(with_values(target["expr"], variables(dashboard))):
                        labels = WITHOUT_DRIVER | series["metric"]
                        name = re.sub(r"\{\{(\w+)\}\}", lambda found: labels[found[1]], target["legendFormat"])
                        with self.subTest(panel["title"], name=name):
                            self.assertNotIn(name, lines, f"{labels}, {lines.get(name)}")
                        lines[name] = labels


if __name__ == "__main__":
    if PROMETHEUS is None:
        print("skipped: prometheus is not there (./dev test fetches Debian's package)")
        sys.exit(77)
    unittest.main(verbosity=2)
