#!/usr/bin/env python3
"""A Prometheus exporter that asks nvidia-smi, Telegraf, with the nvidia-smi of each release: its metrics are the numbers of `ration ps`, the card's on the
node and the limit's under `ration run`. Skipped where it could not be made (no Go, no network)."""
import re
import subprocess
import sys
import unittest

from drivers import HERE, NONE_HERE, SOURCE
from smi_test import HELD, LIMIT, MIB, OF_THE_MACHINE, Node, smi_of

EXPORTER = SOURCE / "build/nvidia-exporter/telegraf"
CONFIGURATION = """
[agent]
  omit_hostname = true
[[inputs.nvidia_smi]]
  bin_path = "{smi}"
[[outputs.file]]
  files = ["{file}"]
  data_format = "prometheus"
"""


class Exporter(Node):
    def metrics(self, release, environment):
        """What one scrape has: {metric: {index of the card, or name of the process: values}}."""
        configuration, file = self.folder / f"exporter-{release}.conf", self.folder / f"metrics-{release}"
        file.unlink(missing_ok=True)
        configuration.write_text(CONFIGURATION.format(smi=smi_of(release), file=file))
        done = subprocess.run([EXPORTER, "--once", "--non-strict-env-handling", "--config", configuration], env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, re.findall(r".* E! .*", done.stderr)), (0, []))
        found = {}
        for name, labels, value in re.findall(r"^nvidia_smi_(\w+)\{(.*)\} (\S+)$", file.read_text(), re.M):
            label = dict(re.findall(r'(\w+)="(.*?)"', labels))
            found.setdefault(name, {}).setdefault(label.get("index") or label["name"], []).append(float(value))
        return found

    def memory(self, metrics):
        """MiB of each card: total, used, free."""
        of_cards = [[metrics[f"memory_{name}"][str(index)] for name in ("total", "used", "free")] for index in range(len(metrics["memory_total"]))]
        return [tuple(int(value) for (value,) in of_card) for of_card in of_cards]

    def test_its_metrics_are_the_numbers_of_ration_ps(self):
        for release in HERE:
            with self.subTest(release=release):
                self.node(release, "T4:16GiB*2")
                self.hold(size=512)
                with self.beside_a_workload(release, "--gpu", "1") as (inside, pid, listed):
                    governed, outside = self.metrics(release, inside), self.metrics(release, self.environment)
                row = next(row for row in listed["data"] if any(one["pid"] == pid for one in row["processes"]))
                limit, used = row["limit_bytes"] // MIB, row["used_bytes"] // MIB
                self.assertEqual((limit, used), (LIMIT, HELD + row["context_bytes"] // MIB))
                # A card that was not granted is full.
                self.assertEqual(self.memory(governed), [(16384, 16384, 0), (limit, used, limit - used)])
                cards = [(device["total_bytes"] // MIB, device["used_bytes"] // MIB) for device in listed["devices"]]
                self.assertEqual(cards, [(16384, 512 + 104), (16384, used)])
                self.assertEqual(self.memory(outside), [(total, in_use, total - in_use) for total, in_use in cards])
                # Of XML as 470 writes it, the exporter reads no processes. It names them by their programs: the neighbour and the workload are of one.
                of_processes = [sorted(value for values in metrics.get("process_used_memory", {}).values() for value in values) for metrics in (outside, governed)]
                machine = [512 + 104, used] if int(release) >= OF_THE_MACHINE else []
                self.assertEqual(of_processes, [machine, machine])


if __name__ == "__main__":
    if not HERE or not EXPORTER.exists():
        print("skipped: no exporter here (./dev test makes it where there is Go and a network)" if HERE else NONE_HERE)
        sys.exit(77)
    unittest.main(verbosity=2)
