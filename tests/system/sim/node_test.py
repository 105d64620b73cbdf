#!/usr/bin/env python3
"""A simulated node as several processes see it: shared memory, deaths, numbering, slow and failing calls, the ground truth."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from waiting import until  # noqa: E402
from actor import Actor  # noqa: E402

SOURCE = pathlib.Path(__file__).parents[3]
BIN = pathlib.Path(os.environ["BUILD_BIN"])
SIM = BIN.parent / "sim"
MIB = 1 << 20

# Run in a process of its own: prints the names of the devices it sees, one a line, or the error of cuInit.
NAMES = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
error = cuda.cuInit(0)
count = ctypes.c_int(0)
if error: print("error", error)
else:
    cuda.cuDeviceGetCount(ctypes.byref(count))
    for ordinal in range(count.value):
        name, bus = ctypes.create_string_buffer(64), ctypes.create_string_buffer(32)
        cuda.cuDeviceGetName(name, 64, ordinal)
        cuda.cuDeviceGetPCIBusId(bus, 32, ordinal)
        print(name.value.decode(), bus.value.decode())
"""

# Prints the UUIDs of the instances that NVML lists of the only card found, and of the devices that the driver shows.
GIVEN_INSTANCES = """
import ctypes, json, uuid
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
card, instance, text, count, number = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(96), ctypes.c_int(), ctypes.create_string_buffer(16)
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)) == 0
listed, seen = [], []
while nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, len(listed), ctypes.byref(instance)) == 0:
    assert nvml.nvmlDeviceGetUUID(instance, text, 96) == 0
    listed.append(text.value.decode())
if cuda.cuInit(0) == 0:
    assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    for device in range(count.value):
        assert cuda.cuDeviceGetUuid_v2(number, device) == 0
        seen.append("MIG-" + str(uuid.UUID(bytes=number.raw)))
print(json.dumps([listed, seen]))
"""

# Prints of each device, as NVML and as the driver count them: index, minor number and UUID; UUID.
FOUND = """
import ctypes
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
count, handle, index, minor, uuid, raw = ctypes.c_uint(), ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint(), ctypes.create_string_buffer(80), ctypes.create_string_buffer(16)
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
found = []
for each in range(count.value):
    assert nvml.nvmlDeviceGetHandleByIndex_v2(each, ctypes.byref(handle)) == 0
    assert nvml.nvmlDeviceGetIndex(handle, ctypes.byref(index)) == 0 and nvml.nvmlDeviceGetMinorNumber(handle, ctypes.byref(minor)) == 0
    assert nvml.nvmlDeviceGetUUID(handle, uuid, 80) == 0
    found.append([index.value, minor.value, uuid.value.decode()[4:].replace("-", "")])
past = nvml.nvmlDeviceGetHandleByIndex_v2(count.value, ctypes.byref(handle))
error, seen = cuda.cuInit(0), []
if error == 0:
    assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    for ordinal in range(count.value):
        assert cuda.cuDeviceGetUuid(raw, ordinal) == 0
        seen.append(raw.raw.hex())
print([found, seen, error, past])
"""

# Prints what both forms of NVML's question about memory answer, and what the driver says of the same device.
MEMORY_INFO = """
import ctypes
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0 and cuda.cuInit(0) == 0
handle, room, total = ctypes.c_void_p(), (ctypes.c_uint64 * 5)(), ctypes.c_size_t()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
first = nvml.nvmlDeviceGetMemoryInfo(handle, room)
room[0] = 40 | 2 << 24
second = nvml.nvmlDeviceGetMemoryInfo_v2(handle, room)
print(first, second, cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0), total.value)
"""

# Prints of the first device: highest clocks of its processors and its memory, in MHz, and its memory's width, as NVML and as the driver have them.
# Prints of a card in MIG mode: its UUID; the UUID, GPU instance, card, total and number of processes of each instance; what
# a stranger is answered about the card's memory and processes; and of each device of the driver its size and both UUIDs.
INSTANCES = """
import ctypes, json, os, uuid
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0 and cuda.cuInit(0) == 0
card, mode, pending, most, room, count = c_void_p(), c_uint(), c_uint(), c_uint(), (c_uint64 * 96)(), c_uint(4)
def of(device):
    text = ctypes.create_string_buffer(96)
    assert nvml.nvmlDeviceGetUUID(device, text, 96) == 0
    return text.value.decode()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(card)) == 0
assert nvml.nvmlDeviceGetMigMode(card, byref(mode), byref(pending)) == 0
assert nvml.nvmlDeviceGetMaxMigDeviceCount(card, byref(most)) == 0
instances = []
for index in range(most.value):
    handle, same, parent, is_instance, instance = c_void_p(), c_void_p(), c_void_p(), c_uint(), c_uint()
    if nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, index, byref(handle)) != 0:
        continue
    assert nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle, byref(parent)) == 0
    assert nvml.nvmlDeviceIsMigDeviceHandle(handle, byref(is_instance)) == 0 and is_instance.value == 1
    assert nvml.nvmlDeviceGetHandleByUUID(of(handle).encode(), byref(same)) == 0 and same.value == handle.value
    assert nvml.nvmlDeviceGetGpuInstanceId(handle, byref(instance)) == 0
    assert nvml.nvmlDeviceGetMemoryInfo(handle, room) == 0
    total, count.value = room[0], 4
    assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, byref(count), room) == 0
    instances.append([of(handle), instance.value, of(parent), total, count.value])
os.seteuid(65534)
count.value = 4
denied = [nvml.nvmlDeviceGetMemoryInfo(card, room), nvml.nvmlDeviceGetComputeRunningProcesses_v3(card, byref(count), room)]
devices, number = [], ctypes.c_int()
assert cuda.cuDeviceGetCount(byref(number)) == 0
for device in range(number.value):
    old, new, total = (ctypes.c_char * 16)(), (ctypes.c_char * 16)(), c_size_t()
    assert cuda.cuDeviceGetUuid(old, device) == 0 and cuda.cuDeviceGetUuid_v2(new, device) == 0
    assert cuda.cuDeviceTotalMem_v2(byref(total), device) == 0
    devices.append([total.value, "GPU-" + str(uuid.UUID(bytes=old.raw)), "MIG-" + str(uuid.UUID(bytes=new.raw))])
print(json.dumps({"mode": mode.value, "card": of(card), "instances": instances, "denied": denied, "devices": devices}))
"""


class Node(unittest.TestCase):
    spec = "T4:1GiB:context=64MiB"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "CUDA_"))}
        self.environment.update(RATION_SIM=self.spec, RATION_SIM_DIR=folder.name, LD_LIBRARY_PATH=str(SIM))

    def run_program(self, *command, **more):
        return subprocess.run([*map(str, command)], env=dict(self.environment, **more), capture_output=True, text=True, timeout=60)

    def workload(self, *arguments, **more):
        return self.run_program(BIN / "ration-workload", *arguments, **more)

    def holding(self, size, **more):
        process = subprocess.Popen([BIN / "ration-workload", "hold", size], env=dict(self.environment, **more), stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        self.assertIn("holding", process.stdout.readline())
        return process

    def truth(self):
        return json.loads(self.run_program(BIN / "ration-sim-truth", "--json").stdout)["devices"]

    def actor(self):
        actor = Actor(self.environment)
        self.addCleanup(actor.kill)
        return actor

    def names(self, **more):
        return [line.rsplit(" ", 1)[0] if line[0] != "e" else line for line in self.run_program(sys.executable, "-c", NAMES, **more).stdout.splitlines()]

    def test_a_node_is_a_file_and_what_is_wrong_with_one_is_said(self):
        node = self.folder / "node.toml"
        self.environment.update(RATION_SIM=str(node))
        node.write_text('driver = "535"\n[[device]]\nmodel = "T4"\nmemory = "2GiB"\ncount = 2\n[[device]]\nmodel = "A100-40"\nmig = ["3g.20gb"]\n')
        self.assertEqual([device["total_bytes"] // MIB for device in self.truth()], [2048, 2048, 20166])
        for text, wrong in (("", "it has no [[device]]"),
                            ("size = 1\n", "unknown key 'size' (known: driver, device_nodes, [[device]])"),
                            ("driver = 535\n", "'driver' is a text in quotes"),
                            ("device_nodes = true\n", "'device_nodes' is a text in quotes"),
                            ('[[device]]\nmodle = "T4"\n', "unknown key 'modle' (known: model, memory,"),
                            ('[[device]]\nmodel = "T4"\ncount = "2"\n', "'count' is a number"),
                            ('[[device]]\nmodel = "T4"\nmemory_info = 1\n', "'memory_info' is true or false"),
                            ('[[device]]\nmodel = "A100-40"\nmig = "3g.20gb"\n', "'mig' is a list of profiles"),
                            ('[[device]]\nmodel = "T4"\nutilisation = 101\n', "utilisation 0 to 100"),
                            ('[[device]]\nmodel = "T4"\nnuma = 1024\n', "numa is the number of a NUMA node, 0 to 1023"),
                            ('[[device]]\nmodel = "T4"\nnuma = -1\n', "numa is the number of a NUMA node, 0 to 1023"),
                            ("[[device]]\nmodel = \n", "line 2: "),
                            ("[[device]]\nmodel = '\udcff'\n", "line 2: ")):
            with self.subTest(text=text):
                node.write_text(text, errors="surrogateescape")
                told = self.run_program(BIN / "ration-sim-truth")
                self.assertNotEqual(told.returncode, 0)
                self.assertIn(wrong, told.stderr)

    def test_a_card_whose_device_node_cannot_be_opened_is_not_there(self):
        nodes, described = self.folder / "dev", '[[device]]\nmodel = "T4"\ncount = 3\n'
        nodes.mkdir()
        (self.folder / "node.toml").write_text(f'device_nodes = "{nodes}"\n' + described)
        self.environment.update(RATION_SIM="", RATION_SIM_DIR=str(self.folder))  # where a node is described that nobody names
        for minors, error in (((), 100), ((0, 1, 2), 0), ((1,), 0), ((0, 2), 0)):
            for file in nodes.iterdir():
                file.unlink()
            for minor in minors:
                (nodes / f"nvidia{minor}").touch()
            done = self.run_program(sys.executable, "-c", FOUND)
            self.assertEqual(done.returncode, 0, done.stderr)
            with self.subTest(minors):
                found, seen, *codes = json.loads(done.stdout.replace("'", '"'))
                self.assertEqual([each[:2] for each in found], [list(each) for each in enumerate(minors)])
                self.assertEqual([each[2] for each in found], seen)
                self.assertEqual(codes, [error, 2])
                if len(minors) == 3:
                    all_of_them = seen
                elif minors:
                    self.assertEqual(seen, [all_of_them[minor] for minor in minors])
            if len(minors) == 2:
                by_uuid = self.run_program(sys.executable, "-c", NAMES, CUDA_VISIBLE_DEVICES=f"GPU-{all_of_them[1][:8]}")
                self.assertEqual(by_uuid.stdout, "error 100\n")
        self.assertEqual(len(self.truth()), 3)

    def test_an_instance_whose_capabilities_cannot_be_opened_is_not_there(self):
        nodes = self.folder / "dev"
        (nodes / "nvidia-caps").mkdir(parents=True)
        (self.folder / "node.toml").write_text(f'device_nodes = "{nodes}"\n[[device]]\nmodel = "T4"\n[[device]]\nmodel = "A100-40"\nmig = ["3g.20gb", "2g.10gb", "1g.5gb"]\n')
        self.environment.update(RATION_SIM="", RATION_SIM_DIR=str(self.folder))
        (nodes / "nvidia1").touch()
        first = [3 + 135 + 9 * instance for instance in (1, 2, 3)]  # of the second card; each with compute instance 0 beside it
        uuids = []
        for given, capabilities in (((0, 1, 2), (*first, *(each + 1 for each in first))), ((), ()), ((1,), (first[1], first[1] + 1)), ((0, 2), (first[0], first[0] + 1, first[2], first[2] + 1)),
                                    ((), (first[0],)), ((), (first[1] + 1,))):
            with self.subTest(given=given, capabilities=capabilities):
                for file in (nodes / "nvidia-caps").iterdir():
                    file.unlink()
                for minor in capabilities:
                    (nodes / f"nvidia-caps/nvidia-cap{minor}").touch()
                done = self.run_program(sys.executable, "-c", GIVEN_INSTANCES)
                self.assertEqual(done.returncode, 0, done.stderr)
                listed, seen = json.loads(done.stdout)
                uuids = uuids or listed
                self.assertEqual(len(uuids), 3)
                self.assertEqual(listed, [uuids[instance] for instance in given])
                self.assertEqual(seen, listed[:1])  # CUDA shows one at most
        asked = self.run_program(sys.executable, "-c", GIVEN_INSTANCES, CUDA_VISIBLE_DEVICES=uuids[0])
        self.assertEqual(json.loads(asked.stdout)[1], [], "an instance that was not given, by its name")

    def test_a_measured_driver_is_a_file_and_says_what_a_context_costs_on_its_card(self):
        profile = self.folder / "measured.toml"
        measured = (SOURCE / "sim/drivers/580.toml").read_text() + 'contexts = { "Tesla T4" = "48MiB" }\n'
        for text, device, expected in ((measured, "T4:1GiB", 48), (measured, "T4:1GiB:context=64MiB", 64), (measured, "L4:1GiB", None)):
            profile.write_text(text)
            self.environment.update(RATION_SIM=f"{device},driver={profile}")
            actor = self.actor()
            self.assertEqual(actor.ask("init"), 0)
            held = self.truth()[0]["processes"][0]["bytes"] // MIB
            self.assertEqual(held, expected) if expected else self.assertNotEqual(held, 48)
            actor.end()
        profile.write_text(measured.replace('"48MiB"', '"no size"'))
        refused = self.run_program(BIN / "ration-sim-truth")
        self.assertIn("a driver's profile needs a good 'contexts'", refused.stderr)

    def test_of_the_hosts_memory_nvml_says_nothing(self):
        """GB10, Jetson: both forms are not supported, while the driver knows the size (vllm issue 55828, nvtop issue 511)."""
        (self.folder / "node.toml").write_text('[[device]]\nmodel = "T4"\nmemory_info = false\n')
        for spec in ("GB10", str(self.folder / "node.toml")):
            with self.subTest(spec=spec):
                told = self.run_program(sys.executable, "-c", MEMORY_INFO, RATION_SIM=spec)
                first, second, retained, total = map(int, told.stdout.split())
                self.assertEqual((first, second, retained), (3, 3, 0), told.stderr)
                self.assertGreater(total, 14 << 30)

    def test_a_card_in_mig_mode_is_no_device_and_its_instances_are(self):
        (self.folder / "node.toml").write_text('[[device]]\nmodel = "A100-40"\nmig = ["3g.20gb", "3g.20gb"]\n')
        for spec in ("A100-40:mig=3g.20gb*2", str(self.folder / "node.toml")):
            with self.subTest(spec=spec):
                def told(**more):
                    done = self.run_program(sys.executable, "-c", INSTANCES, RATION_SIM=spec, **more)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    return json.loads(done.stdout)
                told_by_default = told()
                card, instances = told_by_default["card"], told_by_default["instances"]
                self.assertEqual(told_by_default["mode"], 1)
                self.assertEqual([(instance[1], instance[2]) for instance in instances], [(1, card), (2, card)])
                self.assertNotEqual(instances[0][0], instances[1][0])
                self.assertEqual(told_by_default["denied"], [4, 4])
                self.assertEqual(told_by_default["devices"], [[instances[0][3], card, instances[0][0]]], "one instance at most")
                second = instances[1][0]
                self.assertEqual(told(CUDA_VISIBLE_DEVICES=second)["devices"], [[instances[1][3], card, second]])
                self.assertEqual(told(CUDA_VISIBLE_DEVICES=",".join(instance[0] for instance in instances))["devices"][0][2], instances[0][0])

    def test_instances_are_those_of_the_card(self):
        for spec in ("T4:mig=1g.5gb", "A100-40:mig=3g.20gb*3", "A100-40:mig=8g.5gb", "A100-40:mig=3g.20", "A100-40:mig="):
            with self.subTest(spec=spec):
                self.assertIn("ration-sim: RATION_SIM=", self.workload("hold", "1MiB", RATION_SIM=spec).stderr)

    def test_processes_share_the_device_and_run_out_of_it_together(self):
        one = self.holding("600MiB")
        self.assertEqual(self.workload("hold", "600MiB").returncode, 1)
        held = self.truth()[0]["processes"]
        self.assertEqual([(entry["pid"], entry["bytes"], entry["context_bytes"]) for entry in held], [(one.pid, 664 * MIB, 64 * MIB)])

    def test_a_killed_process_gives_everything_back(self):
        for _ in range(5):
            process = self.holding("800MiB")
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.assertEqual(self.truth()[0]["free_bytes"], 1024 * MIB)

    def test_the_peak_counts_nobody_that_has_died(self):
        for _ in range(5):
            actor = self.actor()
            self.assertEqual((actor.ask("init"), actor.ask("take", 300)), (0, 0))
            actor.kill()
        self.assertEqual(self.truth()[0]["peak_bytes"], 364 * MIB)

    def test_a_process_that_executes_another_program_gives_everything_back(self):
        actor = self.actor()
        self.assertEqual([actor.ask("init"), actor.ask("take", 600), actor.ask("take", 200), actor.ask("publish")], [0] * 4)
        self.assertEqual((actor.ask("execute"), actor.ask("load")), (0, 0))
        self.assertEqual(self.truth()[0]["free_bytes"], 1024 * MIB, "it does not use the driver")
        self.assertEqual([actor.ask("init"), actor.ask("take", 800), actor.ask("publish")], [0] * 3)
        self.assertEqual([actor.ask("execute"), actor.ask("init"), actor.ask("take", 500), actor.ask("publish")], [0] * 4)
        device, = self.truth()
        self.assertEqual([(entry["pid"], entry["bytes"]) for entry in device["processes"]], [(actor.pid, 564 * MIB)])
        self.assertEqual((device["free_bytes"], device["peak_bytes"]), (460 * MIB, 864 * MIB))

    def test_a_process_stopped_in_the_middle_of_a_call_holds_nobody_up(self):
        """Stopped at random instants, many of them within the node's lock. It stays stopped, and goes on when it is told to."""
        self.environment["RATION_SIM"] = "A100-80"
        churning = []
        for _ in range(8):
            churning.append(subprocess.Popen([BIN / "ration-workload", "replay", "medium_512_inference", "--loops", "1000000"],
                                             env=self.environment, stdout=subprocess.DEVNULL))
            self.addCleanup(lambda process: (process.kill(), process.wait()), churning[-1])
        until(lambda: len(self.truth()[0]["processes"]) == len(churning), "all of them hold memory")

        def stat(process):
            return pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()

        other, choice = self.actor(), random.Random(1)
        self.assertEqual(other.ask("init"), 0)
        for _ in range(300):
            one = choice.choice(churning)
            one.send_signal(signal.SIGSTOP)
            until(lambda: stat(one)[0] == "T", "it stands")
            self.assertEqual(other.ask("churn", 500), 0)
            until(lambda: stat(one)[0] == "T", "it stands")  # whoever helped it out of the lock has left it
            one.send_signal(signal.SIGCONT)
        for one in churning:
            self.assertIsNone(one.poll())
            before = stat(one)[11:13]
            until(lambda: stat(one)[11:13] != before, "it goes on")

    def test_a_large_device_costs_the_host_nothing_until_written(self):
        before = sum(path.stat().st_blocks for path in self.folder.rglob("*") if path.is_file()) * 512
        self.environment["RATION_SIM"] = "H200"
        self.holding("130GiB")
        after = sum(path.stat().st_blocks for path in self.folder.rglob("*") if path.is_file()) * 512
        self.assertLess(after - before, 64 * MIB)

    def test_devices_are_numbered_and_chosen_as_the_driver_does(self):
        self.environment["RATION_SIM"] = "T4,A100-40,A30"
        t4, a100, a30 = "Tesla T4", "NVIDIA A100-SXM4-40GB", "NVIDIA A30"
        self.assertEqual(self.names(), [a100, a30, t4], "the fastest first")
        self.assertEqual(self.names(CUDA_DEVICE_ORDER="PCI_BUS_ID"), [t4, a100, a30])
        self.assertEqual(self.names(CUDA_VISIBLE_DEVICES="2,0"), [t4, a100])
        self.assertEqual(self.names(CUDA_VISIBLE_DEVICES="1,7,0"), [a30], "the list ends at its first invalid entry")
        self.assertEqual(self.names(CUDA_VISIBLE_DEVICES=""), ["error 100"])
        self.assertEqual(self.names(CUDA_VISIBLE_DEVICES="0,0"), ["error 100"])
        rows = json.loads(subprocess.run([BIN / "ration", "ps", "--sim=T4,A100-40,A30", "-o", "json"], capture_output=True, text=True,
                                         env=dict(self.environment, RATION_RUNTIME_DIR=str(self.folder))).stdout)["devices"]
        uuids = {row["name"]: row["uuid"] for row in rows}
        self.assertEqual(self.names(CUDA_VISIBLE_DEVICES=uuids[a30] + "," + uuids[t4][:12]), [a30, t4])
        self.assertEqual(self.names(CUDA_VISIBLE_DEVICES="GPU-"), ["error 100"], "a prefix that means several means none")

    def test_a_node_from_a_file(self):
        path = self.folder / "node.toml"
        path.write_text('[[device]]\nmodel = "T4"\nmemory = "2GiB"\ncount = 2\n[[device]]\nmodel = "H100"\nname = "mine"\n'
                        'uuid = "GPU-00112233-4455-6677-8899-aabbccddeeff"\n')
        self.assertEqual(self.names(RATION_SIM=str(path)), ["mine", "Tesla T4", "Tesla T4"])
        self.assertEqual(self.names(RATION_SIM=str(path), CUDA_VISIBLE_DEVICES="GPU-001122"), ["mine"])
        for text in ('[[device]]\nmodle = "T4"\n', '[[device]]\nmodel = "T5"\n', "[[device]]\nmodel = 3\n", "", "[device]\n", '[[device]]\nmodel = "T4"\ncount = 99\n'):
            path.write_text(text)
            self.assertEqual(self.names(RATION_SIM=str(path)), ["error 304"], text)

    def test_descriptions_that_are_none_are_refused(self):
        for spec in ("T5", "T4:16XiB", "T4:0GiB", "T4*0", "T4*99", "T4*x", "T4,", ",", "T4:50%", "T4:999GiB"):
            self.assertEqual(self.names(RATION_SIM=spec), ["error 304"], spec)

    def test_calls_fail_as_told(self):
        done = self.workload("replay", "medium_512_inference", RATION_SIM="T4", RATION_SIM_FAULT="cuMemAlloc:call=10:error=2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("at event 9 of", done.stderr)
        self.assertEqual(self.workload("hold", "100MiB", RATION_SIM_FAULT="cuMemAlloc:above=99MiB").returncode, 1)
        with self.assertRaises(subprocess.TimeoutExpired):
            subprocess.run([BIN / "ration-workload", "hold", "99MiB"], env=dict(self.environment, RATION_SIM_FAULT="cuMemAlloc:above=99MiB"),
                           stdout=subprocess.DEVNULL, timeout=2)
        self.assertEqual(self.workload("hold", "1MiB", RATION_SIM_FAULT="context:error=46").returncode, 1)

    def test_what_cannot_be_understood_is_never_ignored(self):
        for variable, value in (("RATION_SIM_LATENCY", "contxt=200ms"), ("RATION_SIM_LATENCY", "cuMemAlloc=fast"), ("RATION_SIM_FAULT", "cuMemAloc:call=1"),
                                ("RATION_SIM_FAULT", "cuMemAlloc:call=0"), ("RATION_SIM_FAULT", "cuMemAlloc:above=99"),
                                ("RATION_SIM_HOLD", "cuMemAlloc:within=10ms"), ("RATION_SIM_HOLD", "cuMemAlloc:before=10"), ("RATION_SIM_HOLD", "cuMemAloc:after=1ms")):
            done = self.workload("total", **{variable: value})
            self.assertEqual(done.returncode, 1, value)
            self.assertIn(value, done.stderr)


class InAContainer(unittest.TestCase):
    """NVML before release 570, asked in a pid namespace that is not the host's."""

    def actors(self, driver, launcher=()):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        node = pathlib.Path(folder.name) / "node.toml"
        node.write_text(f'driver = "{driver}"\n[[device]]\nmodel = "T4"\ncontext = "64MiB"\nutilisation = 40\n')
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "CUDA_"))}
        environment.update(RATION_SIM=str(node), RATION_SIM_DIR=folder.name + "/state", LD_LIBRARY_PATH=str(SIM))
        both = [Actor(environment), Actor(environment, launcher)]
        for actor in both:
            self.addCleanup(actor.kill)
            self.assertEqual([actor.ask("init"), actor.ask("take", 100)], [0, 0])
        self.assertEqual(both[0].ask("nvml"), 0)
        return both

    def test_it_lists_every_process_with_0_bytes_and_names_others_as_computing(self):
        one, other = self.actors("560-container")
        self.assertEqual(one.ask("processes"), {str(one.pid): 0, str(other.pid): 0})
        computing = one.ask("computing")
        self.assertEqual([sorted(computing.values()), {str(one.pid), str(other.pid)} & set(computing)], [[40, 40], set()])

    def test_it_tells_nothing_of_other_namespaces(self):
        if os.getuid() != 0:
            self.skipTest("only root can make a pid namespace here")
        one, _ = self.actors("560-container", ("unshare", "--pid", "--fork", "--kill-child"))
        self.assertEqual(one.ask("processes"), {str(one.pid): 0})

    def test_release_570_tells_all(self):
        one, other = self.actors("570")
        self.assertEqual(one.ask("processes"), {str(one.pid): 164, str(other.pid): 164})
        self.assertEqual(one.ask("computing"), {str(one.pid): 40, str(other.pid): 40})


if __name__ == "__main__":
    unittest.main()
