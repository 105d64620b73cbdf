#!/usr/bin/env python3
"""NVIDIA's Python client, nvidia-ml-py, and the monitors gpustat and nvitop that are made with it, on simulated cards with and without a limit.
Skipped where they could not be had."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from drivers import BUILD, ROOM, SOURCE

RATION = BUILD / "bin/ration"
CLIENTS = SOURCE / "build/nvidia-clients/bin"
MIB = 1 << 20
NOT_SUPPORTED, NO_PERMISSION = 3, 4
ERRORS = {0, 2, 3, 6, 10, 25}  # and: wrong argument, not found, timeout (nothing ever happens), another version of a structure
HIDES_ERRORS = {"nvmlDeviceSetClockOffsets", "nvmlDeviceSetPowerManagementLimit_v2"}  # answer success whatever NVML says
HANDS_THE_ERROR_ON = {"nvmlDeviceSetVirtualizationMode", "nvmlVgpuInstanceSetEncoderCapacity", "nvmlDeviceSetPowerMizerMode_v1"}  # as their answer
SETTERS = r"nvml(Device|GpuInstance|ComputeInstance|System|Unit|VgpuInstance)(WorkloadPowerProfile|PowerSmoothing)?(Set|Clear|Reset|Freeze|Modify|Remove|Create|Destroy|Update|Activate)"
OF_THE_CALLER = {"nvmlDeviceSetCpuAffinity", "nvmlDeviceClearCpuAffinity", "nvmlDeviceClearFieldValues"}
# Memory is the limit's; energy and the time of a field grow; text and processes are the caller's.
UNLIKE = r".*(MemoryInfo|TotalEnergyConsumption|FieldValues|SystemGetProcessName|BAR1MemoryInfo)"
# The highest that a card of any kind tells, by the unit of the number.
BOUNDS = {"Clock": 20000, "Temperature": 150, "Power(Usage|Management.*Limit)": 2_000_000, "Utilization|FanSpeed": 1_000_000, "PcieLinkWidth": 32, "PcieLinkGeneration": 7,
          "GetCount|MaxMigDeviceCount|NumFans": 16, "MemoryBusWidth": 12288, "NumGpuCores": 40000, "PerformanceState|PowerState": 32, "CudaComputeCapability": 13}


class PythonClients(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "sim").mkdir()

    def environment(self, node):
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "RATION_SIM": node, "RATION_SIM_DIR": str(self.folder / "sim"),
                "RATION_RUNTIME_DIR": str(self.folder / "run"), "COLUMNS": "100", "LANG": "C.UTF-8"}

    def run_words(self, *words, node, launcher=()):
        found = {} if launcher else {"LD_LIBRARY_PATH": str(BUILD / "sim")}
        done = subprocess.run([*launcher, *words], env=self.environment(node) | found, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-800:])
        return done.stdout

    def calls(self, node, *options, launcher=()):
        return json.loads(self.run_words(CLIENTS / "python", ROOM / "calls_of_python.py", *options, node=node, launcher=launcher))

    def assert_possible(self, place, function, values):
        """No number that no card could have told: what was not filled, and no reserved bytes of a structure, is taken for one."""
        highest = next((bound for pattern, bound in BOUNDS.items() if re.search(pattern, function)), None)
        for number in numbers_in(values):
            self.assertTrue(-1 <= number < 1 << 64 if isinstance(number, int) else number >= 0, (place, function, values))
            if highest is not None:
                self.assertLessEqual(number, highest, (place, function, values))

    def test_each_function_answers_alike_with_and_without_the_guard_and_memory_adds_up(self):
        for node, places in (("T4:16GiB", ["0"]), ("A100-40:mig=3g.20gb", ["0", "0.0"]), ("A100-40,T4", ["0", "1"])):
            with self.subTest(node):
                bare = self.calls(node)
                guarded = self.calls(node, launcher=[RATION, "run", "--limit", "2GiB", "--gpu", "all", "--"])
                self.assertEqual((list(bare), list(guarded)), (places, places))
                for place, answers in bare.items():
                    self.assertGreater(len(answers), 420)
                    self.assertEqual({function: answer for function, answer in answers.items() if not isinstance(answer[0], int)}, {}, "the module's own error")
                    differences = {function: (answer, guarded[place][function]) for function, answer in answers.items()
                                   if answer != guarded[place][function] and not re.fullmatch(UNLIKE, function)}
                    self.assertEqual(differences, {}, place)
                    for told in (answers, guarded[place]):
                        self.memory(told, place)
                        for function, (error, values) in told.items():
                            self.assertIn(error, ERRORS, (place, function))
                            self.assert_possible(place, function, values)
                    if "." not in place and "mig" not in node:
                        self.assertEqual(self.memory(guarded[place], place)[0], 2048 * MIB)
                    bus = int(place.split(".")[0]) + 1
                    error, values = answers["nvmlDeviceGetPciInfoExt"]
                    self.assertEqual((error, values[1]["bus"], values[1]["busId"]), (0, bus, f"00000000:{bus:02X}:00.0"))

    def memory(self, answers, place):
        told = answers["nvmlDeviceGetMemoryInfo"]
        self.assertEqual(told[0], 0, place)
        total, free, used = (told[1][0][name] for name in ("total", "free", "used"))
        self.assertEqual(used + free, total, place)
        self.assertGreater(total, 0)
        return total, used

    def test_nothing_is_set_for_all_and_who_is_not_root_is_told_that_he_may_not(self):
        answers = {user: self.calls("T4:16GiB", *user)["0"] for user in ((), ("user",))}
        setters = {function for function in answers[()] if re.match(SETTERS, function) and function not in OF_THE_CALLER}
        self.assertGreater(len(setters), 50)
        for user, errors in (((), {NOT_SUPPORTED}), (("user",), {NOT_SUPPORTED, NO_PERMISSION})):
            for function in setters:
                error, values = answers[user][function]
                if function in HANDS_THE_ERROR_ON:
                    error = values[0]
                if function not in HIDES_ERRORS:
                    self.assertIn(error, errors, (user, function))
        denied = {function for function in setters if answers[("user",)][function][0] == NO_PERMISSION or function in HANDS_THE_ERROR_ON and answers[("user",)][function][1][0] == NO_PERMISSION}
        for function in ("nvmlDeviceSetPersistenceMode", "nvmlDeviceSetComputeMode", "nvmlDeviceSetEccMode", "nvmlDeviceSetPowerManagementLimit", "nvmlDeviceSetMigMode",
                         "nvmlDeviceSetGpuLockedClocks", "nvmlDeviceResetGpuLockedClocks", "nvmlDeviceSetApplicationsClocks", "nvmlDeviceClearEccErrorCounts",
                         "nvmlDeviceCreateGpuInstance", "nvmlGpuInstanceDestroy", "nvmlComputeInstanceDestroy", "nvmlDeviceSetVirtualizationMode", "nvmlUnitSetLedState"):
            self.assertIn(function, denied)
        # What is asked is answered alike, whoever asks.
        self.assertEqual({function: (answer, answers[("user",)][function]) for function, answer in answers[()].items()
                          if answer != answers[("user",)][function] and function not in setters and not re.fullmatch(UNLIKE, function)}, {})

    def test_monitors_show_the_memory_that_ration_ps_lists(self):
        node = "T4:16GiB,T4:16GiB"
        words = [RATION, "run", "--limit", "2GiB", "--gpu", "1", "--name", "holder", "--", "sh", "-c",
                 f'"{BUILD}/bin/ration-workload" hold 1GiB > "{self.folder}/told" & held=$!; until grep -qs holding "{self.folder}/told"; do :; done; '
                 f'"{CLIENTS}/gpustat" --json > "{self.folder}/gpustat"; "{CLIENTS}/nvitop" -1 > "{self.folder}/nvitop"; echo shown; read go; kill $held; wait']
        with subprocess.Popen(words, env=self.environment(node), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            self.assertEqual(holder.stdout.readline(), "shown\n")
            listed = json.loads(self.run_words(RATION, "ps", "-o", "json", node=node, launcher=["env"]))
            outside = json.loads(self.run_words(CLIENTS / "gpustat", "--json", node=node))["gpus"], self.run_words(CLIENTS / "nvitop", "-1", node=node)
            holder.communicate("\n", timeout=30)
        inside = json.loads((self.folder / "gpustat").read_text())["gpus"], (self.folder / "nvitop").read_text()
        (row,) = listed["data"]
        limit, used = row["limit_bytes"] // MIB, row["used_bytes"] // MIB
        of_cards = [(device["used_bytes"] // MIB, device["total_bytes"] // MIB) for device in listed["devices"]]
        self.assertEqual((limit, of_cards), (2048, [(0, 16384), (used, 16384)]))
        for (cards, table), expected in ((outside, of_cards), (inside, [(16384, 16384), (used, limit)])):  # a card that was not granted is full
            self.assertEqual([(card["memory.used"], card["memory.total"]) for card in cards], expected)
            self.assertEqual([[process["gpu_memory_usage"] for process in card["processes"]] for card in cards], [[], [used]])
            self.assertEqual([(value(one), value(other)) for one, other in re.findall(r"│ +([\d.]+(?:B|\wiB)) / +([\d.]+\wiB) │", table)], expected)


def numbers_in(values):
    if isinstance(values, (int, float)):
        yield values
    if isinstance(values, dict) and "valueType" in values:  # a union: its other members are the same bytes, read differently
        kind = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")[values["valueType"]]
        values = values | {"value": values["value"][kind]}
    for one in values.values() if isinstance(values, dict) else values if isinstance(values, list) else ():
        yield from numbers_in(one)


def value(text):
    """MiB of `1.27GiB` or `0B`."""
    number, unit = re.fullmatch(r"([\d.]+)(\w+)", text).groups()
    return int(float(number) * {"B": 0, "MiB": 1, "GiB": 1024}[unit])


if __name__ == "__main__":
    if not (CLIENTS / "gpustat").exists():
        print("skipped: no nvidia-ml-py, gpustat and nvitop here (./dev test installs them where there is a network)")
        sys.exit(77)
    unittest.main(verbosity=2)
