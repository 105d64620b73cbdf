#!/usr/bin/env python3
"""Prints the rules beside this file as a PrometheusRule of the Prometheus Operator: to_kubernetes.py > ../kubernetes/monitoring/rules.yaml"""
import pathlib

HEAD = """# Made by prometheus/to_kubernetes.py from recording.yml and alerts.yml: change these two files, and run the program again.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: ration, namespace: ration-system}
spec:
  groups:
"""


def rule():
    here = pathlib.Path(__file__).parent
    return HEAD + "".join((here / name).read_text().split("groups:\n", 1)[1] for name in ("recording.yml", "alerts.yml"))


if __name__ == "__main__":
    print(rule(), end="")
