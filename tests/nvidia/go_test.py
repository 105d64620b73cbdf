#!/usr/bin/env python3
"""NVIDIA's Go clients, go-nvml and go-nvlib: every function of theirs on simulated cards and MIG instances, with and without the guard. Skipped where
there is no Go, or no network for its modules."""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from drivers import BUILD, ROOM

RATION = BUILD / "bin/ration"
GIB = 1 << 30
# Their values are addresses of the client, say which file was asked, or grow with time.
UNLIKE = {"GetTotalEnergyConsumption", "GpmMetricsGetV", "LookupSymbol", "GetRunningProcessDetailList", "GetMigDevices"}


class GoClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        done = subprocess.run(["go", "build", "-o", cls.folder / "walk", "."], cwd=ROOM / "go", env=dict(os.environ, CGO_CFLAGS="-w"), capture_output=True, text=True)
        if done.returncode != 0 and re.search(r"dial tcp|no such host|timeout|connect:", done.stderr):
            raise unittest.SkipTest("no network for the Go modules")
        assert done.returncode == 0, done.stderr[-2000:]

    def environment(self, node):
        (self.folder / "sim").mkdir(exist_ok=True)
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "RATION_SIM": node, "RATION_SIM_DIR": str(self.folder / "sim"),
                "RATION_RUNTIME_DIR": str(self.folder / "run")}

    def walk(self, *launcher, node):
        found = {} if launcher else {"LD_LIBRARY_PATH": str(BUILD / "sim")}
        done = subprocess.run([*launcher, self.folder / "walk"], env=self.environment(node) | found, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-500:])
        answers = {}
        for line in done.stdout.splitlines():
            row = json.loads(line)
            answers[row["Device"], row["Call"]] = (row["Return"], row["Values"] or [])
        return answers

    def memory(self, answers, device, call="Device.GetMemoryInfo_v2"):
        code, values = answers[device, call]
        self.assertEqual(code, "Success")
        return collections.defaultdict(int, {name: int(value) for name, value in re.findall(r"(\w+):(\d+)", values[0])})

    def assert_adds_up(self, answers):
        for (device, call) in answers:
            if call.endswith((".GetMemoryInfo", ".GetMemoryInfo_v2")) and answers[device, call][0] == "Success":
                found = self.memory(answers, device, call)
                self.assertEqual(found["Used"] + found["Free"] + found["Reserved"], found["Total"], (device, call))

    def test_each_function_answers_alike_with_and_without_the_guard_but_for_memory(self):
        for node in ("T4:16GiB", "A100-40,T4", "A100-40:mig=3g.20gb"):
            with self.subTest(node):
                bare = self.walk(node=node)
                guarded = self.walk(RATION, "run", "--limit", "2GiB", "--gpu", "all", "--", node=node)
                self.assertGreater(len(bare), 300)
                self.assertEqual(bare.keys(), guarded.keys())
                self.assertEqual([key for key, (code, _) in bare.items() if code.startswith("panic") and key[1] != "GpmMetricsGet"], [])
                differences = {key: (answer, guarded[key]) for key, answer in bare.items() if answer != guarded[key] and key[1].split(".")[-1] not in UNLIKE
                               and "MemoryInfo" not in key[1]}
                self.assertEqual(differences, {})
                self.assert_adds_up(bare)
                self.assert_adds_up(guarded)
                for device in {device for device, call in guarded if call.endswith(".GetMemoryInfo_v2") and "/" not in device and "mig" not in node}:
                    self.assertEqual(self.memory(guarded, device)["Total"], 2 * GIB, device)

    def test_they_read_what_ration_ps_lists(self):
        node = "T4:16GiB,T4:16GiB"
        words = [RATION, "run", "--limit", "2GiB", "--gpu", "1", "--name", "holder", "--", BUILD / "bin/ration-workload", "hold", "1GiB"]
        with subprocess.Popen(words, env=self.environment(node), stdout=subprocess.PIPE, text=True) as holder:
            try:
                self.assertIn("holding", holder.stdout.readline())
                listed = json.loads(subprocess.run([RATION, "ps", "-o", "json"], env=self.environment(node), capture_output=True, text=True, check=True).stdout)
                answers = self.walk(node=node)
            finally:
                holder.terminate()
        for device in listed["devices"]:
            told = self.memory(answers, str(device["gpu"]), "Device.GetMemoryInfo")
            self.assertEqual((told["Used"], told["Total"]), (device["used_bytes"], device["total_bytes"]))
        (row,) = listed["data"]
        self.assertIn(f"Pid:{row['processes'][0]['pid']} UsedGpuMemory:{row['used_bytes']} ", " ".join(answers["1", "Device.GetComputeRunningProcesses"][1]))


if __name__ == "__main__":
    if shutil.which("go") is None:
        print("skipped: no Go here")
        sys.exit(77)
    unittest.main(verbosity=2)
