#!/usr/bin/env python3
"""Every card that `--sim` takes by name has a data sheet, and the driver's attributes, NVML and NVIDIA's own nvidia-smi tell of it what the sheet says."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from drivers import BUILD, DRIVERS, HERE, SOURCE

RATION = BUILD / "bin/ration"
NUMBER = {name: number for number, name in enumerate(("GRAPHICS", "SM", "MEMORY", "VIDEO"))}
NOT_SUPPORTED = 3
CLOCK, MULTIPROCESSORS, INTEGRATED, ECC, BUS, MEMORY_CLOCK, WIDTH, L2, MAJOR, MINOR, SHARED, SHARED_OPT_IN, PERSISTING = 13, 16, 18, 32, 33, 36, 37, 38, 75, 76, 81, 97, 108
ATTRIBUTES = (CLOCK, MULTIPROCESSORS, INTEGRATED, ECC, BUS, MEMORY_CLOCK, WIDTH, L2, MAJOR, MINOR, SHARED, SHARED_OPT_IN, PERSISTING)
NUMBERS = {"watts": ("nvmlDeviceGetPowerManagementLimit",), "milliwatts": ("nvmlDeviceGetPowerUsage",), "width": ("nvmlDeviceGetMemoryBusWidth",),
           "ecc": ("nvmlDeviceGetDefaultEccMode",), "cores": ("nvmlDeviceGetNumGpuCores",), "lanes": ("nvmlDeviceGetMaxPcieLinkWidth",),
           "state": ("nvmlDeviceGetPerformanceState",), **{f"highest {name}": ("nvmlDeviceGetMaxClockInfo", NUMBER[name]) for name in NUMBER},
           **{f"idle {name}": ("nvmlDeviceGetClockInfo", NUMBER[name]) for name in NUMBER}}
CORES = {(7, 0): 64, (7, 5): 64, (8, 0): 64}  # a multiprocessor has; later ones 128
ASK = f"""
import ctypes, json
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
value, handle, size, text = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.create_string_buffer(96)
assert cuda.cuInit(0) == nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
attributes, numbers = {{}}, {{}}
for number in {ATTRIBUTES}:
    assert cuda.cuDeviceGetAttribute(ctypes.byref(value), number, 0) == 0, number
    attributes[number] = value.value
for name, (function, *words) in {NUMBERS}.items():
    value.value = -1
    error = getattr(nvml, function)(handle, *words, ctypes.byref(value))
    assert error in (0, {NOT_SUPPORTED}), (function, error)
    numbers[name] = value.value if error == 0 else None
names = []
for library, ask, given in ((cuda, "cuDeviceGetName", (text, 96, 0)), (nvml, "nvmlDeviceGetName", (handle, text, 96))):
    assert getattr(library, ask)(*given) == 0
    names.append(text.value.decode())
capability = [ctypes.c_int(), ctypes.c_int()]
assert nvml.nvmlDeviceGetCudaComputeCapability(handle, *map(ctypes.byref, capability)) == 0
print(json.dumps([attributes, numbers, names, [each.value for each in capability]]))
"""


def sheets():
    """{name: {field: text}} of sim/card_sheet.cpp; clocks as lists of numbers."""
    table = (SOURCE / "sim/card_sheet.cpp").read_text().split("kSheets[] = {")[1].split("\n};")[0]
    found = {}
    for entry in re.split(r"\{\.name = ", table)[1:]:
        fields = dict(re.findall(r"\.(\w+) = (\{[\d, ]*\}|[\w:]+)", entry))
        found[re.match(r'"(.*?)"', entry)[1]] = {key: [int(number) for number in re.findall(r"\d+", text)] if text.startswith("{") else text for key, text in fields.items()}
    return found


def known():
    said = subprocess.run([RATION, "run", "--sim=nothing", "--", "true"], capture_output=True, text=True).stderr
    return re.search(r"known: (.*?);", said)[1].split()


class Cards(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_on(self, node, *words):
        place = self.folder / re.sub(r"\W", "-", node)
        place.mkdir(exist_ok=True)
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(BUILD / "sim"), "RATION_SIM": node, "RATION_SIM_DIR": str(place), "HOME": str(self.folder)}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout

    def ask(self, node):
        attributes, numbers, names, capability = json.loads(self.run_on(node, sys.executable, "-c", ASK))
        self.assertEqual(names[0], names[1])
        return {int(number): value for number, value in attributes.items()}, numbers, names[0], tuple(capability)

    def test_driver_and_nvml_tell_what_the_sheet_says(self):
        listed, names = sheets(), set()
        self.assertGreater(len(known()), 15)
        for key in known():
            with self.subTest(key):
                attributes, numbers, name, capability = self.ask(key)
                sheet = listed[name]
                names.add(name)
                clocks = {kind: (sheet.get(kind, []) + [0] * 3)[:3] for kind in ("highest", "idle", "rated")}
                for kind in ("highest", "idle"):
                    graphics, memory, video = (clock or None for clock in clocks[kind])
                    told = [numbers[f"{kind} {which}"] for which in ("GRAPHICS", "SM", "MEMORY", "VIDEO")]
                    self.assertEqual(told, [graphics, graphics, memory, video], kind)
                own_memory = not attributes[INTEGRATED]
                width, ecc = int(sheet["bus_width"]), sheet.get("ecc", "Ecc::kNone")
                rated, rated_memory = clocks["rated"][:2] if clocks["rated"][0] else clocks["highest"][:2]
                self.assertEqual((attributes[CLOCK], attributes[MEMORY_CLOCK], attributes[WIDTH]), (1000 * rated, 1000 * rated_memory, width))
                self.assertLessEqual(attributes[CLOCK], 1000 * numbers["highest GRAPHICS"])
                self.assertEqual(numbers["width"], width if own_memory else None)
                self.assertIn(numbers["highest MEMORY"], (attributes[MEMORY_CLOCK] // 1000, None if not own_memory else -1))
                self.assertEqual(numbers["lanes"], 16 if own_memory else None)
                self.assertEqual(numbers["watts"], 1000 * int(sheet["watts"]) if "watts" in sheet else None)
                self.assertEqual(numbers["milliwatts"], int(sheet["idle_milliwatts"]) if "idle_milliwatts" in sheet else None)
                self.assertEqual(numbers["state"], int(sheet.get("idle_state", 0)) if "watts" in sheet else None)
                self.assertEqual(numbers["ecc"], {"Ecc::kNone": None, "Ecc::kOff": 0, "Ecc::kOn": 1}[ecc])
                self.assertEqual(attributes[ECC], numbers["ecc"] or 0)
                self.assertEqual((attributes[MAJOR], attributes[MINOR]), capability)
                self.assertEqual(numbers["cores"], attributes[MULTIPROCESSORS] * CORES.get(capability, 128))
                self.assertEqual(attributes[L2], 1024 * int(sheet["l2_kib"]))
                self.assertLess(attributes[PERSISTING], attributes[L2])
                self.assertLessEqual(attributes[SHARED_OPT_IN], attributes[SHARED])
        self.assertEqual(names, set(listed), "a sheet of a card that --sim does not know")

    def test_of_a_card_that_nobody_knows_nvml_says_nothing_and_the_driver_what_a_card_of_its_kind_has(self):
        attributes, numbers, name, capability = self.ask("Nobody's:24GiB")
        self.assertEqual((name, capability), ("Nobody's", (8, 0)))
        self.assertEqual({value for kind, value in numbers.items() if kind not in ("cores", "lanes")}, {None})
        self.assertEqual((attributes[CLOCK], attributes[MEMORY_CLOCK], attributes[WIDTH]), (1410000, 1215000, 5120))

    def test_nvidia_smi_tells_what_the_sheet_says(self):
        if not HERE:
            self.skipTest("no nvidia-smi of NVIDIA's here")
        smi = next(DRIVERS[HERE[-1]].parent.glob("usr/lib/nvidia/*/nvidia-smi"))
        listed = sheets()
        fields = "name,clocks.max.graphics,clocks.max.memory,power.limit,ecc.mode.current,pci.device_id,vbios_version"
        for key in known():
            with self.subTest(key):
                told = self.run_on(f"{key},driver={HERE[-1]}", smi, f"--query-gpu={fields}", "--format=csv,noheader,nounits").strip().split(", ")
                sheet = listed[told[0]]
                clocks = [str(clock) if clock else "[N/A]" for clock in (sheet["highest"] + [0])[:2]]
                ecc = {"Ecc::kOn": "Enabled", "Ecc::kOff": "Disabled", "Ecc::kNone": "[N/A]"}[sheet.get("ecc", "Ecc::kNone")]
                self.assertEqual(told[1:5], [*clocks, sheet["watts"] + ".00" if "watts" in sheet else "[N/A]", ecc])
                if "pci_device" in sheet:
                    self.assertEqual(told[5].lower(), sheet["pci_device"].lower())


if __name__ == "__main__":
    unittest.main(verbosity=2)
