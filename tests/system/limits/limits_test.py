#!/usr/bin/env python3
"""Whole programs under `ration run` on a simulated GPU: every way of taking memory holds, and the command line's manners."""
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent.parent / "sim"), str(pathlib.Path(__file__).parent.parent)]
import waiting  # noqa: E402, F401
from actor import Actor  # noqa: E402
from actor import __file__ as ACTOR  # noqa: E402

BIN = pathlib.Path(os.environ["BUILD_BIN"])
MIB = 1 << 20
RELEASE = int(os.environ.get("RATION_SIM_DRIVER", "580")[:3])  # of the simulated driver
HAS_CHECKPOINTS = RELEASE >= 570
IS_CUDA_11 = RELEASE < 525  # has no libraries of kernels, none of the second forms, and no function that takes a graph's node by its parameters
# Of the probe on one card; those that need two. The probe names each way that it skips and the function that the driver lacks.
WAYS, WAYS_OF_TWO = (73 if HAS_CHECKPOINTS else 72) - (8 if IS_CUDA_11 else 0), 10

# What a program is told of each device that is visible to it: one list of [what a retain answers, [free, total] by
# cuMemGetInfo, cuDeviceTotalMem, [free, total, used] by NVML, and by its second version].
TOLD = """
import ctypes, json
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
class Memory2(ctypes.Structure):
    _fields_ = [("version", c_uint), ("total", c_uint64), ("reserved", c_uint64), ("free", c_uint64), ("used", c_uint64)]
assert cuda.cuInit(0) == 0 and nvml.nvmlInit_v2() == 0
count = c_int()
assert cuda.cuDeviceGetCount(byref(count)) == 0
told = []
for device in range(count.value):
    context, free, total, whole = c_void_p(), c_size_t(), c_size_t(), c_size_t()
    retained = cuda.cuDevicePrimaryCtxRetain(byref(context), device)
    info = None
    if retained == 0:
        assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemGetInfo_v2(byref(free), byref(total)) == 0
        info = [free.value, total.value]
    assert cuda.cuDeviceTotalMem_v2(byref(whole), device) == 0
    handle, first, second = c_void_p(), (c_uint64 * 3)(), Memory2(ctypes.sizeof(Memory2) | 2 << 24)
    assert nvml.nvmlDeviceGetHandleByIndex_v2(device, byref(handle)) == 0
    assert nvml.nvmlDeviceGetMemoryInfo(handle, first) == 0
    if hasattr(nvml, "nvmlDeviceGetMemoryInfo_v2"):
        assert nvml.nvmlDeviceGetMemoryInfo_v2(handle, byref(second)) == 0
    else:  # before CUDA 12: one form alone
        second.total, second.free, second.used = first
    assert first[1] + first[2] == first[0] and second.free + second.reserved + second.used == second.total, "figures do not add up"
    told.append([retained, info, whole.value, [first[1], first[0], first[2]], [second.free, second.total, second.used]])
print(json.dumps(told))
"""

# Opens the driver by its path through the functions that libc's own handle gives, and says how many MiB it gets.
PAST_THE_GUARD = """
import ctypes, sys
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p, c_char_p
libc = ctypes.CDLL("libc.so.6")
look_up = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_char_p)(ctypes.cast(libc.dlsym, c_void_p).value)
if sys.argv[1] == "dlopen":
    driver = ctypes.CFUNCTYPE(c_void_p, c_char_p, c_int)(look_up(libc._handle, b"dlopen"))(sys.argv[2].encode(), 2)
else:
    driver = ctypes.CFUNCTYPE(c_void_p, ctypes.c_long, c_char_p, c_int)(look_up(libc._handle, b"dlmopen"))(-1, sys.argv[2].encode(), 2)
def call(name, *arguments):
    return ctypes.CFUNCTYPE(c_int, *map(type, arguments))(look_up(driver, name))(*arguments)
context, address, taken = c_void_p(), c_uint64(), 0
assert call(b"cuInit", c_uint(0)) == 0
assert call(b"cuDevicePrimaryCtxRetain", c_void_p(ctypes.addressof(context)), c_int(0)) == 0
assert call(b"cuCtxSetCurrent", context) == 0
while call(b"cuMemAlloc_v2", c_void_p(ctypes.addressof(address)), c_size_t(64 << 20)) == 0: taken += 64
print(taken)
"""

# Takes so many MiB by launching a graph, says so, and keeps them.
BY_GRAPH = """
import ctypes, struct, sys
from ctypes import byref, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
context, graph, node, executable = (c_void_p() for _ in range(4))
wanted = ctypes.create_string_buffer(120)
struct.pack_into("4i", wanted, 0, 1, 0, 1, 0)                      # pinned memory, of no handle type, of device 0
struct.pack_into("Q", wanted, 104, int(sys.argv[1]) << 20)
for answer in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(byref(context), 0), cuda.cuCtxSetCurrent(context),
               cuda.cuGraphCreate(byref(graph), 0), cuda.cuGraphAddMemAllocNode(byref(node), graph, None, c_size_t(0), wanted),
               cuda.cuGraphInstantiateWithFlags(byref(executable), graph, c_uint64(0)), cuda.cuGraphLaunch(executable, None)):
    if answer: sys.exit(f"refused: {answer}")
print("holding", flush=True)
sys.stdin.read()
"""

# Is handed a function that no table lists, and when a line comes takes 2 GiB by it.
BY_UNLISTED = """
import ctypes, sys
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
context, function, status, address = c_void_p(), c_void_p(), c_int(), c_uint64()
asked = b"cuMemAllocUnlisted", byref(function), 99000, c_uint64(1)
for answer in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(byref(context), 0), cuda.cuCtxSetCurrent(context),
               cuda.cuGetProcAddress_v2(*asked, byref(status)) if hasattr(cuda, "cuGetProcAddress_v2") else cuda.cuGetProcAddress(*asked)):
    if answer: sys.exit(f"refused: {answer}")
print("asked", flush=True)
sys.stdin.readline()
print(ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t)(function.value)(ctypes.addressof(address), 2 << 30), flush=True)
sys.stdin.read()
"""


class Scene(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.environment = dict(os.environ, RATION_SIM_DIR=self.folder.name, RATION_RUNTIME_DIR=self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def ration(self, *arguments, **options):
        return subprocess.run([BIN / "ration", *arguments], env=self.environment, capture_output=True, text=True,
                              timeout=120, **options)

    def used(self, name):
        listed = json.loads(self.ration("ps", "--json").stdout)
        return next(entry["used_bytes"] for entry in listed["data"] if entry["workload"] == name)

    def state(self, name, node):
        listed = json.loads(self.ration("ps", f"--sim={node}", "--json").stdout)
        return next((entry["state"] for entry in listed["data"] if entry["workload"] == name), None)

    def truly_used(self, node):
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=node),
                              capture_output=True, text=True, check=True)
        device = json.loads(told.stdout)["devices"][0]
        return device["total_bytes"] - device["free_bytes"]


class Told(Scene):
    """What is told of a device beside its memory."""

    def test_a_device_says_its_compute_capability_and_who_can_hold_limits_on_it(self):
        both = "driver and shim" if os.geteuid() == 0 else "shim"
        for node, told in (("T4,H100,B200,driver=580", [("7.5", "shim"), ("9.0", "shim"), ("10.0", "shim")]), ("L4,driver=615", [("8.9", both)]),
                           ("A100-40:mig=3g.20gb,driver=615", [("8.0", "shim")])):
            listed = json.loads(self.ration("ps", f"--sim={node}", "--json").stdout)["devices"]
            self.assertEqual([(device["compute_capability"], device["enforced_by"]) for device in listed], told)

    def test_a_device_says_which_processors_are_next_to_it(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as node:
            node.write('[[device]]\nmodel = "T4"\n[[device]]\nmodel = "A100-40"\nnuma = 70\nmig = ["3g.20gb", "3g.20gb"]\n')
            node.flush()
            listed = json.loads(self.ration("ps", f"--sim={node.name}", "--json").stdout)["devices"]
            self.assertEqual([device["numa_nodes"] for device in listed], [[], [70], [70]])


class Governed(Scene):
    def test_every_way_of_taking_memory_holds_the_limit_exactly(self):
        limit, context, request = 1024 * MIB, 64 * MIB, 256 * MIB
        done = self.ration("run", "--sim=T4:16GiB:context=64MiB", "--limit", "1GiB", "--", BIN / "ration-workload", "probe", "256")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual(len(lines), WAYS, "a way is missing")
        for name, obtained, left, result, after in lines:
            with self.subTest(way=name):
                self.assertEqual(after, "returned")
                self.assertEqual(int(result), 2, "refused with CUDA_ERROR_OUT_OF_MEMORY")
                if name in ("mipmap", "small-blocks"):  # other sizes than the request
                    self.assertLess(int(left), request)
                else:
                    self.assertEqual(int(obtained), (limit - context) // request * request)

    def test_the_device_itself_never_holds_more_than_the_limit(self):
        """The simulator's own record: no way of taking memory passes the limit even for a moment."""
        node = "T4:16GiB:context=64MiB"
        done = self.ration("run", f"--sim={node}", "--limit", "1GiB", "--", BIN / "ration-workload", "probe", "256")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=node),
                              capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(told.stdout)["devices"][0]["peak_bytes"], 1024 * MIB,
                         "small blocks fill it to the last byte, and nothing passes it")

    def test_a_child_by_the_clone_system_call_is_charged_for_itself(self):
        """It goes on after its parent has ended: what it holds is in the book when its parent's part has left it."""
        node = "T4:16GiB:context=64MiB"
        pipes = {name: pathlib.Path(self.folder.name) / name for name in ("in1", "out1", "in2", "out2", "gate")}
        for pipe in pipes.values():
            os.mkfifo(pipe)
        jobs = [f"{BIN}/ration-workload obey <{pipes[f'in{job}']} >{pipes[f'out{job}']} &" for job in (1, 2)]
        program = subprocess.Popen([BIN / "ration", "run", "--name", "clones", f"--sim={node}", "--limit", "1GiB", "--", "sh",
                                    "-c", " ".join(jobs) + f" read gate <{pipes['gate']}"], env=self.environment)
        files = [open(pipes[f"{way}{job}"], mode) for job in (1, 2) for way, mode in (("in", "w"), ("out", "r"))]
        self.addCleanup(program.kill)

        def obey(job, order):
            files[2 * job - 2].write(order + "\n")
            files[2 * job - 2].flush()
            return int(files[2 * job - 1].readline())

        self.assertEqual(obey(2, "free"), 0, "it has its context")
        self.assertEqual(obey(1, "take 256"), 0)
        self.assertEqual(obey(1, "outlive"), 0)
        taken = sum(obey(job, "take 128") == 0 for job in (1, 2) for _ in range(10))
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=node),
                              capture_output=True, text=True, check=True)
        device = json.loads(told.stdout)["devices"][0]
        self.assertLessEqual(device["total_bytes"] - device["free_bytes"], 1024 * MIB)
        self.assertGreaterEqual(taken, 6)
        row, = json.loads(self.ration("ps", f"--sim={node}", "-o", "json").stdout)["data"]
        self.assertGreaterEqual(row["used_bytes"], taken * 128 * MIB, "nothing is held without being charged")
        for file in files:
            file.close()
        open(pipes["gate"], "w").close()
        self.assertEqual(program.wait(timeout=60), 1, "as read does at the end of a file")

    def governed_actor(self, node, name):
        actor = Actor(self.environment, [BIN / "ration", "run", f"--sim={node}", "--limit", "1GiB", "--name", name, "--"])
        self.addCleanup(actor.end)
        return actor

    def test_a_child_by_the_clone_system_call_has_a_context_of_its_own(self):
        node = "T4:16GiB:context=64MiB"
        actor = self.governed_actor(node, "cloned")
        self.assertEqual((actor.ask("init"), actor.ask("clone")), (0, 0))
        self.assertEqual((self.used("cloned"), self.truly_used(node)), (128 * MIB, 128 * MIB))

    def test_a_context_that_no_hook_saw_is_charged_when_memory_is_taken_in_it(self):
        node = "T4:16GiB:context=64MiB"
        actor = self.governed_actor(node, "private")
        self.assertEqual([actor.ask("init"), actor.ask("private_context"), actor.ask("take", 128)], [0, 0, 0])
        self.assertEqual((self.used("private"), self.truly_used(node)), (256 * MIB, 256 * MIB))
        self.assertEqual([actor.ask("take", 769), actor.ask("take", 768)], [2, 0])
        self.assertEqual(actor.ask("end", 1), 0)
        self.assertEqual((self.used("private"), self.truly_used(node)), (64 * MIB, 64 * MIB))

    def test_what_lived_in_a_primary_context_goes_with_its_reset_whether_it_stays_active_or_not(self):
        profile = (BIN.parents[2] / "sim/drivers/580.toml").read_text()
        for deactivates in ("false", "true"):
            with self.subTest(deactivates=deactivates):
                path = pathlib.Path(self.folder.name) / f"reset-{deactivates}.toml"
                path.write_text(profile.replace("reset_deactivates = true", f"reset_deactivates = {deactivates}"))
                node = f"T4:16GiB:context=64MiB,driver={path}"
                actor = self.governed_actor(node, f"reset-{deactivates}")
                for _ in range(3):
                    self.assertEqual([actor.ask("init"), actor.ask("take", 900), actor.ask("reset")], [0, 0, 0])
                    left = {"false": 64 * MIB, "true": 0}[deactivates]
                    self.assertEqual((self.used(f"reset-{deactivates}"), self.truly_used(node)), (left, left))
                actor.end()

    def test_async_memory_of_another_device_is_charged_there(self):
        node = "T4:16GiB:context=64MiB*2"
        actor = Actor(self.environment, [BIN / "ration", "run", f"--sim={node}", "--gpu", "0,1", "--limit", "1GiB", "--name", "two", "--"])
        self.addCleanup(actor.end)
        self.assertEqual([actor.ask("init"), actor.ask("async_elsewhere", 512)], [0, 0])
        rows = {row["gpu"]: row["used_bytes"] // MIB for row in json.loads(self.ration("ps", f"--sim={node}", "--json").stdout)["data"]}
        self.assertEqual(rows, {0: 64, 1: 64 + 512})
        self.assertEqual(actor.ask("async_elsewhere", 512), 2)

    def test_global_variables_of_loaded_code_count_until_it_is_unloaded_or_its_context_ends(self):
        node = "T4:16GiB:context=64MiB"
        actor = self.governed_actor(node, "globals")
        both = lambda: (self.used("globals") // MIB, self.truly_used(node) // MIB)  # noqa: E731
        self.assertEqual([actor.ask("init"), actor.ask("load_code", 512), actor.ask("take", 512)], [0, 0, 2])
        self.assertEqual(both(), (576, 576))
        self.assertEqual([actor.ask("load_code", 449), actor.ask("load_code", 448), actor.ask("take", 2)], [2, 0, 2])
        self.assertEqual([actor.ask("unload_code"), actor.ask("take", 448)], [0, 0])
        self.assertEqual((both(), actor.ask("reset")), ((1024, 1024), 0))
        self.assertIn(both(), [(0, 0), (64, 64)], "of the context, if the driver keeps it")

    def test_code_counts_in_every_form_and_small_images_of_loaded_code_share_granules(self):
        node = "T4:16GiB:context=64MiB"
        actor = self.governed_actor(node, "forms")
        both = lambda: (self.used("forms") // MIB, self.truly_used(node) // MIB)  # noqa: E731
        self.assertEqual([actor.ask("init"), actor.ask("load_code", 512, "cuModuleLoadFatBinary"), both()], [0, 0, (576, 576)])
        self.assertEqual([actor.ask("load_code", 449, "cuModuleLoadFatBinary"), actor.ask("unload_code"), both()], [2, 0, (64, 64)])
        self.assertEqual([actor.ask("load_many", 4097, 320), both()], [0, (68, 68)])
        self.assertEqual([actor.ask("unload_every_second"), both()], [0, (66, 66)])
        self.assertEqual(actor.ask("reset"), 0)
        self.assertIn(both(), [(0, 0), (64, 64)], "of the context, if the driver keeps it")

    def test_loaded_code_whose_size_cannot_be_told_is_rejected(self):
        node = "T4:16GiB:context=64MiB"
        actor = self.governed_actor(node, "crafted")
        self.assertEqual([actor.ask("init"), actor.ask("load_crafted")], [0, [200] * 7])
        self.assertEqual((self.used("crafted") // MIB, self.truly_used(node) // MIB), (64, 64))

    @unittest.skipIf(IS_CUDA_11, "this driver has no cuLibraryLoadData")
    def test_a_library_counts_on_each_device_that_has_a_context(self):
        node = "T4:16GiB:context=64MiB*2"
        actor = Actor(self.environment, [BIN / "ration", "run", f"--sim={node}", "--gpu", "0,1", "--limit", "1GiB", "--name", "libraries", "--"])
        self.addCleanup(actor.end)

        def rows():
            return {row["gpu"]: row["used_bytes"] // MIB for row in json.loads(self.ration("ps", f"--sim={node}", "--json").stdout)["data"]}
        self.assertEqual([actor.ask("init"), actor.ask("load_library", 500), rows()[0], actor.ask("load_library", 500)], [0, 0, 564, 2])
        self.assertEqual([actor.ask("second_device"), rows()], [0, {0: 564, 1: 564}])
        self.assertEqual([actor.ask("load_library", 461), actor.ask("load_library", 460)], [2, 0])
        self.assertEqual([actor.ask("unload_library"), actor.ask("unload_library"), rows()], [0, 0, {0: 64, 1: 64}])

    def test_a_program_that_executes_itself_holds_what_it_takes_afterwards(self):
        node = "T4:16GiB:context=64MiB"
        actor = self.governed_actor(node, "again")
        self.assertEqual((actor.ask("init"), actor.ask("take", 900)), (0, 0))
        self.assertEqual([actor.ask("execute"), actor.ask("init"), actor.ask("take", 900), actor.ask("take", 100)], [0, 0, 0, 2])
        self.assertEqual((self.used("again"), self.truly_used(node)), (964 * MIB, 964 * MIB))

    def test_who_has_ended_is_in_no_figure_of_the_next_step(self):
        for way in ("exit", "kill -9", "execute"):
            with self.subTest(way=way):
                node, name = "T4:16GiB:context=64MiB", f"steps-{way.split()[0]}"
                step = f"{sys.executable} {ACTOR}"
                actor = Actor(self.environment, [BIN / "ration", "run", f"--sim={node}", "--limit", "1GiB", "--name", name, "--",
                                                 "sh", "-c", f"{step}; {step}; :"])
                self.addCleanup(actor.end)
                self.assertEqual([actor.ask("init"), actor.ask("nvml"), actor.ask("take", 700)], [0, 0, 0])
                self.assertEqual((actor.ask("info"), actor.ask("memory")), ([0, 260, 1024], [0, 1024, 260, 764]))
                self.assertEqual(actor.ask({"exit": "leave", "kill -9": "die", "execute": "execute"}[way]), 0)
                self.assertEqual([actor.ask("nvml"), actor.ask("memory")], [0, [0, 1024, 1024, 0]], "who asks NVML holds nothing yet")
                self.assertEqual([actor.ask("init"), actor.ask("info")], [0, [0, 960, 1024]])

    def test_who_has_ended_beside_this_process_is_in_no_figure(self):
        actor = self.governed_actor("T4:16GiB:context=64MiB", "beside")
        self.assertEqual([actor.ask("init"), actor.ask("nvml"), actor.ask("take", 100)], [0, 0, 0])
        for ending in ("leave", "die"):
            actor.ask("child", f"init;take=600;{ending}")
            self.assertEqual((actor.ask("info"), actor.ask("memory")), ([0, 860, 1024], [0, 1024, 860, 164]), ending)

    def test_what_nvml_says_adds_up_where_a_limit_was_lowered(self):
        actor = self.governed_actor("T4:16GiB:context=64MiB", "lowered")
        self.assertEqual([actor.ask("init"), actor.ask("nvml"), actor.ask("take", 900)], [0, 0, 0])
        self.assertEqual(self.ration("set", "lowered", "--limit", "300MiB", "--yes").returncode, 0)
        self.assertEqual((actor.ask("info"), actor.ask("memory")), ([0, 0, 300], [0, 300, 0, 300]))
        # Before release 570 NVML lists a container's processes with 0 bytes.
        in_container = os.environ.get("RATION_SIM_DRIVER", "").endswith("container")
        self.assertEqual(sum(actor.ask("processes").values()), 0 if in_container else 300)

    def test_too_few_descriptors_let_nothing_past_the_limit_and_end_no_program(self):
        node = "T4:16GiB:context=64MiB"
        for few in range(3, 10):
            with self.subTest(descriptors=few):
                actor = self.governed_actor(node, f"few-{few}")
                errors = actor.ask("descriptors", few)
                if errors == [0] * 4:
                    self.assertEqual(self.used(f"few-{few}"), 128 * MIB)
                actor.end()

    def test_random_calls_of_every_kind_never_pass_the_limit_and_leave_nothing(self):
        """Three threads in each of three processes, and the limit moved up and down meanwhile."""
        node = "T4:16GiB:context=64MiB"
        for seed in (1, 2, 3):
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as folder:
                environment = dict(self.environment, RATION_SIM_DIR=folder)
                gate = pathlib.Path(folder) / "gate"
                os.mkfifo(gate)
                jobs = [f"{BIN}/ration-workload random {gate} --calls 1500 --seed {3 * seed + job} || echo failed"
                        for job in range(3)]
                program = subprocess.Popen([BIN / "ration", "run", "--name", f"random{seed}", f"--sim={node}", "--limit",
                                            "1GiB", "--", "sh", "-c", " & ".join(jobs) + " & wait"],
                                           env=environment, stdout=subprocess.PIPE, text=True)
                self.addCleanup(program.communicate)
                self.assertEqual([program.stdout.readline() for _ in jobs], ["ready\n"] * 3)
                with open(gate, "w"):
                    for limit in ("640MiB", "1GiB") * 8:
                        self.assertEqual(self.ration("set", f"random{seed}", "--limit", limit, "--yes").returncode, 0)
                    self.assertEqual([program.stdout.readline() for _ in jobs], ["returned\n"] * 3)
                    told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(environment, RATION_SIM=node),
                                          capture_output=True, text=True, check=True)
                    device = json.loads(told.stdout)["devices"][0]
                    self.assertGreater(device["peak_bytes"], 960 * MIB, "the limit was reached")
                    self.assertLessEqual(device["peak_bytes"], 1024 * MIB, "and not passed")
                    self.assertEqual([process["bytes"] for process in device["processes"]], [64 * MIB] * 3)
                    self.assertEqual(self.used(f"random{seed}"), 3 * 64 * MIB)

    def truth(self, node, **environment):
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=node, **environment),
                              capture_output=True, text=True, check=True)
        return json.loads(told.stdout)["devices"]

    def test_contexts_of_many_threads_are_booked_as_often_as_they_are_made(self):
        """With a driver that takes its time over each."""
        for node in ("T4:16GiB:context=104MiB", "T4:16GiB:context=64MiB"):
            for latency, calls in (("context=20000us", 20), ("context=0", 400)):
                with self.subTest(node=node, latency=latency):
                    self.contexts_of_many_threads(node, latency, calls)

    def contexts_of_many_threads(self, node, latency, calls):
        cost = int(node.split("=")[1].removesuffix("MiB")) * MIB
        self.environment["RATION_SIM_LATENCY"] = latency
        program = subprocess.Popen([BIN / "ration", "run", "--name", "many", f"--sim={node}", "--limit", "1000MiB", "--",
                                    BIN / "ration-workload", "contexts", "--threads", "32", "--calls", str(calls)],
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.communicate)

        def reaches(point, contexts):
            self.assertEqual(program.stdout.readline(), point + "\n")
            held = [process["bytes"] for process in self.truth(node)[0]["processes"] if process["bytes"]]
            self.assertEqual((sum(held), self.used("many")), (contexts * cost, contexts * cost), point)
            program.stdin.write("\n")
            program.stdin.flush()
        fit = 1000 * MIB // cost
        reaches("retained 32", 1)
        reaches("released", 0)
        reaches(f"created {fit}", fit)
        reaches("ended", 0)
        self.assertEqual(program.wait(), 0)

    def told(self, *options, node="T4:16GiB:context=64MiB"):
        done = self.ration("run", f"--sim={node}", *options, "--", "/usr/bin/env", "-u", "CUDA_VISIBLE_DEVICES",
                           sys.executable, "-c", TOLD)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_who_waits_gets_what_the_device_has_again_whatever_way_it_asks(self):
        """Two limits that are more than the device has: the book grants what the driver refuses."""
        node = "T4:16GiB:context=64MiB"
        hold = [BIN / "ration-workload", "hold", "9GiB", "--via"]
        ways = {way: [*hold, way] for way in ("malloc", "vmm", "async")} | {"graph": [sys.executable, "-c", BY_GRAPH, str(9 * 1024)]}

        def start(name, command):
            program = subprocess.Popen([BIN / "ration", "run", "--name", name, f"--sim={node}", "--limit", "12GiB", "--on-deny", "wait",
                                        "--", *command], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.addCleanup(program.communicate)
            self.addCleanup(program.terminate)
            return program
        for way, command in ways.items():
            with self.subTest(way=way):
                neighbour = start(f"neighbour-{way}", [*hold, "malloc"])
                self.assertRegex(neighbour.stdout.readline(), "holding")
                waiting = start(f"waiting-{way}", command)
                while waiting.poll() is None and self.state(f"waiting-{way}", node) != "waiting":
                    pass
                neighbour.terminate()
                self.assertRegex(waiting.stdout.readline(), "holding", "it got them")
                waiting.terminate()
                waiting.wait()

    def test_what_is_free_is_what_both_the_limit_and_the_device_have_left(self):
        (_, info, total, first, second), = self.told("--limit", "8GiB")
        self.assertEqual((info, total), ([8128 * MIB, 8192 * MIB], 8192 * MIB))
        self.assertEqual((first, second), ([8128 * MIB, 8192 * MIB, 64 * MIB],) * 2)
        other = self.steered("other", "15GiB")
        self.assertEqual(other("take 11008"), 0)
        (_, info, _, first, second), = self.told("--limit", "8GiB")
        free = (16384 - 11008 - 64 - 64) * MIB
        self.assertEqual(info, [free, 8192 * MIB], "the device has less left than the limit")
        self.assertEqual(first, [free, 8192 * MIB, 8192 * MIB - free], "what others hold of it is in use, or reserved")
        self.assertEqual(second, first if IS_CUDA_11 else [free, 8192 * MIB, 64 * MIB])

    def test_a_device_that_was_not_granted_is_unavailable_and_why_says_so(self):
        one, other = self.told("--gpu", "0", "--name", "one", "--limit", "1GiB", node="T4:16GiB:context=64MiB*2")
        self.assertEqual((one[0], one[1]), (0, [960 * MIB, 1024 * MIB]))
        self.assertEqual(other, [46, None, 0, [0, 16384 * MIB, 16384 * MIB], [0, 16384 * MIB, 16384 * MIB]])
        why = self.ration("why", "d-1-1", "--sim=T4:16GiB:context=64MiB*2").stdout
        self.assertIn("because  GPU 1 was not granted to one\n", why)
        self.assertRegex(why, r"fix      ration run --sim=\S+ --name \S+ --gpu 0,1 --limit 1GiB -- (/usr/bin/env|PROGRAM$)")

    def test_ration_sees_the_machine_from_inside_a_limit(self):
        done = self.ration("run", "--sim=T4:16GiB:context=64MiB", "--limit", "2GiB", "--name", "inside", "--", "sh", "-c",
                           f"{BIN}/ration set inside --limit 1GiB && {BIN}/ration set inside --limit 3GiB && "
                           f"{BIN}/ration set inside --limit 50% && {BIN}/ration run --limit 1GiB -- true")
        self.assertIn("limit 1.00 GiB → 3.00 GiB on GPU 0 (now).", done.stdout, done.stderr)
        self.assertIn("limit 3.00 GiB → 8.00 GiB on GPU 0 (now).", done.stdout)
        self.assertIn("E1414", done.stderr, "still under the limit")
        self.assertEqual(done.returncode, 125)

    def test_what_libc_itself_opens_is_held_where_that_is_required(self):
        for way in ("dlopen", "dlmopen"):
            with self.subTest(way=way):
                done = self.ration("run", "--sim=T4:16GiB:context=64MiB", "--limit", "1GiB", "--require-enforced", "--",
                                   sys.executable, "-c", PAST_THE_GUARD, way, BIN.parent / "sim/libcuda.so.1")
                self.assertEqual((done.returncode, done.stdout), (0, "960\n"), done.stderr)

    def steered(self, name, limit):
        """A workload that does what it is told: ask(order) answers with the driver's result."""
        program = subprocess.Popen([BIN / "ration", "run", "--sim=T4:16GiB:context=64MiB", "--limit", limit, "--name", name, "--",
                                    BIN / "ration-workload", "obey"], env=self.environment, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(program.communicate)

        def ask(order):
            program.stdin.write(order + "\n")
            program.stdin.flush()
            return int(program.stdout.readline())
        return ask

    def test_a_limit_changed_while_running_holds_from_the_next_request_on(self):
        ask = self.steered("one", "576MiB")
        self.assertEqual([ask("take 256"), ask("take 256"), ask("take 256")], [0, 0, 2])
        self.assertEqual(self.ration("set", "one", "--limit", "832MiB").returncode, 0)
        self.assertEqual([ask("take 256"), ask("take 2")], [0, 2], "raised by exactly one block")
        self.assertEqual(self.ration("set", "one", "--limit", "320MiB", "--yes").returncode, 0)
        self.assertEqual(self.used("one"), 832 * MIB, "nothing is taken away")
        self.assertEqual(ask("take 2"), 2)
        self.assertEqual(ask("free"), 0)
        self.assertEqual([ask("take 256"), ask("take 2")], [0, 2], "lowered to exactly one block")

    def test_the_heap_of_kernels_counts_and_goes_with_its_context(self):
        ask = self.steered("heap", "512MiB")
        self.assertEqual([ask("context"), ask("heap 264"), ask("take 128"), ask("take 2")], [0, 0, 0, 2])
        self.assertEqual(self.used("heap"), 512 * MIB)
        self.assertEqual([ask("heap 300"), ask("heap 4")], [2, 0], "more is refused, less takes nothing away")
        self.assertEqual(self.used("heap"), 512 * MIB)
        self.assertEqual(ask("leave"), 0)
        self.assertEqual(self.used("heap"), 64 * MIB, "the primary context")

    def test_memory_for_kernels_is_charged_as_it_is_taken_whatever_the_order_of_limits(self):
        """Random limits of every kind in several contexts, up and down, refused by the limit and by a full device."""
        threads = 40 * 1024  # that a T4 runs at once: each has a stack
        node = "T4:1GiB:context=32MiB"
        environment = dict(self.environment, RATION_SIM=node, LD_LIBRARY_PATH=str(BIN.parent / "sim"))
        other = Actor(environment)
        self.addCleanup(other.kill)
        self.assertEqual(other.ask("init"), 0)
        actor = Actor(self.environment, [BIN / "ration", "run", f"--sim={node}", "--limit", "512MiB", "--name", "kernels", "--"])
        self.addCleanup(actor.end)
        self.assertEqual(actor.ask("init"), 0)
        contexts, choice, answers = 1, random.Random(1), set()
        for step in range(150):
            while step == 75 and other.ask("take", 32) == 0:
                pass
            kind = choice.randrange(10)
            if kind == 0 and contexts < 4:
                done = ("context",)
            elif kind == 1 and contexts > 1:
                done = ("end", choice.randrange(1, contexts))
            elif kind == 2:
                done = ("enter", choice.randrange(contexts))
            else:
                kind = choice.randrange(3)
                done = ("set_limit", kind, choice.randrange(1 << choice.randrange(16, 30)) // (1 if kind else threads // 2))
            answer = actor.ask(*done)
            self.assertIn(answer, (0, 2), done)
            answers.add((done[0], answer))
            if answer == 0:
                contexts += {"context": 1, "end": -1}.get(done[0], 0)
            told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=environment, capture_output=True, text=True, check=True)
            truly = {process["pid"]: process["bytes"] for process in json.loads(told.stdout)["devices"][0]["processes"]}
            truly.pop(other.pid)
            self.assertEqual(self.used("kernels"), sum(truly.values()), (step, done))
        self.assertLessEqual({("set_limit", 0), ("set_limit", 2), ("end", 0)}, answers)

    @unittest.skipUnless(HAS_CHECKPOINTS, "this driver has no checkpoints of its own")
    def test_a_checkpoint_leaves_the_charges_whoever_orders_it_and_whoever_restores_it(self):
        for orders_it in ("itself", "another process"):
            with self.subTest(orders_it=orders_it):
                name = orders_it.replace(" ", "-")
                ask = self.steered(name, "1GiB")
                self.assertEqual(ask("take 512"), 0)
                environment = dict(self.environment, RATION_SIM="T4:16GiB:context=64MiB", LD_LIBRARY_PATH=str(BIN.parent / "sim"))

                def held():
                    told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=environment, capture_output=True, text=True, check=True)
                    most = max(json.loads(told.stdout)["devices"][0]["processes"], key=lambda process: process["bytes"] + process["host_bytes"])
                    return most["pid"], most["bytes"] // MIB, most["host_bytes"] // MIB
                pid, *_ = held()
                manager = Actor(environment)
                self.addCleanup(manager.kill)
                self.assertEqual(manager.ask("load"), 0)
                self.assertEqual([ask("checkpoint")] if orders_it == "itself" else [manager.ask("lock", pid), manager.ask("checkpoint", pid)],
                                 [0] if orders_it == "itself" else [0, 0])
                self.assertEqual(held(), (pid, 0, 576))
                self.assertEqual(self.used(name), 576 * MIB)
                self.assertEqual([manager.ask("restore", pid), manager.ask("unlock", pid), ask("take 448"), ask("take 2"), ask("free")], [0, 0, 0, 2, 0])
                self.assertEqual(self.used(name), 64 * MIB)
                manager.kill()

    def test_a_function_that_no_table_lists_works_and_everybody_is_told(self):
        node = "T4:16GiB:context=64MiB"
        program = subprocess.Popen([BIN / "ration", "run", f"--sim={node}", "--limit", "1GiB", "--name", "later", "--", sys.executable,
                                    "-c", BY_UNLISTED], env=self.environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(program.communicate)

        def row():
            return json.loads(self.ration("ps", f"--sim={node}", "-o", "json").stdout)["data"][0]

        def doctor():
            return json.loads(self.ration("doctor", f"--sim={node}", "--only", "enforce.functions", "-o", "json").stdout)["data"][0]

        self.assertEqual(program.stdout.readline(), "asked\n")
        self.assertNotIn("unlisted_functions", row(), "a runtime asks for every name it knows")
        self.assertEqual(doctor()["result"], "OK")
        program.stdin.write("\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), "0\n")
        self.assertEqual(self.truly_used(node), (2048 + 64) * MIB)
        self.assertEqual((row()["unlisted_function_count"], row()["unlisted_functions"]), (1, ["cuMemAllocUnlisted"]))
        self.assertIn("called cuMemAllocUnlisted, which ration does not know", self.ration("ps", f"--sim={node}").stdout)
        self.assertEqual(doctor()["result"], "WARN")
        self.assertIn("later called cuMemAllocUnlisted", doctor()["message"])

    def test_a_program_finds_the_names_of_the_installed_driver_and_no_others(self):
        names = [line.split("\t")[0] for line in (pathlib.Path(__file__).parents[3] / "src/driver/driver_api.tsv").read_text().splitlines() if line.startswith("cu")]
        asked = f"import ctypes; driver = ctypes.CDLL('libcuda.so.1'); print([name for name in {names} if hasattr(driver, name)])"
        for release in (470, 535, 570, 610):
            node = f"T4:16GiB,driver={release}"
            bare = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True,
                                  env=dict(self.environment, RATION_SIM=node, LD_LIBRARY_PATH=str(BIN.parent / "sim/drivers" / str(release))))
            held = self.ration("run", f"--sim={node}", "--limit", "1GiB", "--", sys.executable, "-c", asked)
            self.assertGreater(len(bare.stdout), 1000, bare.stderr)
            self.assertEqual(held.stdout, bare.stdout)

    def test_without_a_limit_the_same_ways_reach_past_it(self):
        environment = dict(self.environment, RATION_SIM="T4:2GiB*2", LD_LIBRARY_PATH=str(BIN.parent / "sim/drivers" / os.environ.get("RATION_SIM_DRIVER", "580")))
        done = subprocess.run([BIN / "ration-workload", "probe", "256"], env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(len(done.stdout.splitlines()), WAYS + WAYS_OF_TWO, done.stderr)
        for line in done.stdout.splitlines():
            name, obtained, *_ = line.split()
            if name not in ("mipmap", "small-blocks"):
                self.assertGreater(int(obtained), 1024 * MIB, name)

    def test_exit_codes_are_the_programs_own(self):
        for program, code in ((["/bin/sh", "-c", "exit 7"], 7), (["/bin/sh", "-c", "kill -9 $$"], 128 + signal.SIGKILL),
                              (["/no/such/program"], 127), (["/etc/passwd"], 126)):
            self.assertEqual(self.ration("run", "--sim=T4", "--limit", "1GiB", "--", *program).returncode, code, program)

    def test_a_book_that_is_lost_under_its_job_is_told_and_widens_no_limit(self):
        hold = BIN / "ration-workload"
        steps = f"{hold} hold 1GiB & read line; kill $!; wait; timeout 60 {hold} hold 1MiB"
        for what, lose in {"removed": pathlib.Path.unlink, "replaced or damaged": self.make_a_pipe_of_it}.items():
            job = subprocess.Popen([BIN / "ration", "run", "--sim=T4", "--name", "job", "--limit", "2GiB", "--", "/bin/sh", "-c", steps],
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(job.kill)
            self.assertEqual(job.stdout.readline(), "holding 1.00 GiB\n")
            book = next((pathlib.Path(self.folder.name) / "books").glob("job.*.book"))
            lose(book)
            if what == "removed":
                rows = json.loads(self.ration("ps", "--sim=T4", "--json").stdout)["data"]
                self.assertEqual([row["workload_na"] for row in rows], [f"its book {book} was removed while the process ran, and no other book counts its memory"])
            output, errors = job.communicate("go on\n")
            self.assertEqual(output, "", "the next step got memory without a book")
            self.assertIn(f"E1451 ration: the book of job was {what} while the workload ran: {book}. ", errors)
            book.unlink(missing_ok=True)

    def make_a_pipe_of_it(self, book):
        book.unlink()
        os.mkfifo(book)

    def test_nothing_is_added_to_the_programs_output(self):
        done = self.ration("run", "--sim=T4", "--limit", "1GiB", "--", "/bin/echo", "hello")
        self.assertEqual((done.stdout, done.stderr), ("hello\n", ""))


@unittest.skipIf(RELEASE < 580, "no release before 580 knows such a card")
class OfTheHostsMemory(Scene):
    """A device whose memory is the host's: NVML does not say what it has or what is free (GB10, Jetson)."""

    def test_it_is_listed_with_its_size_and_what_nobody_says_is_not_available(self):
        listed = self.ration("ps", "--sim=GB10")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("NVIDIA GB10", listed.stdout)
        self.assertIn("n/a (the driver does not report it) of 122 GiB used", listed.stdout)
        device = json.loads(self.ration("ps", "--sim=GB10", "--json").stdout)["devices"][0]
        for field in ("used_bytes", "free_bytes", "unexplained_bytes", "orphaned_bytes"):
            self.assertIsNone(device[field], field)
            self.assertRegex(device[field + "_na"], "the driver (does not report|reports neither)")
        explained = self.ration("explain", "--sim=GB10", "--gpu", "0")
        self.assertEqual(explained.returncode, 0, explained.stderr)
        self.assertIn("n/a (the driver does not report it) free", explained.stdout)

    def test_a_limit_is_a_share_of_what_the_driver_has_and_holds(self):
        node, limit = "GB10:16GiB:context=64MiB", 4096 * MIB
        done = self.ration("run", f"--sim={node}", "--limit", "25%", "--", BIN / "ration-workload", "probe", "256")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=node),
                              capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(told.stdout)["devices"][0]["peak_bytes"], limit)
        self.assertEqual(self.ration("fits", f"--sim={node}", "8GiB").returncode, 0)

    def test_inside_the_limit_is_what_nvml_says(self):
        """A program without an answer takes its fractions of the host's memory, which no limit is a part of."""
        done = self.ration("run", "--sim=GB10:16GiB:context=64MiB", "--limit", "4GiB", "--", sys.executable, "-c", TOLD)
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = [4032 * MIB, 4096 * MIB]
        self.assertEqual(json.loads(done.stdout), [[0, whole, 4096 * MIB, [*whole, 64 * MIB], [*whole, 64 * MIB]]])


class Instances(Scene):
    """A card in MIG mode: its instances are devices, and the card is none."""
    node = "A100-40:context=64MiB:mig=3g.20gb*2"

    def devices(self):
        listed = self.ration("ps", f"--sim={self.node}", "--json")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        return json.loads(listed.stdout)["devices"]

    def test_each_is_listed_with_its_card_and_its_profile(self):
        devices = self.devices()
        self.assertEqual([(device["gpu"], device["uuid"][:4], device["name"]) for device in devices],
                         [(100, "MIG-", "NVIDIA A100-SXM4-40GB MIG 3g.20gb"), (101, "MIG-", "NVIDIA A100-SXM4-40GB MIG 3g.20gb")])
        self.assertEqual([device["mig"] | {"uuid": device["mig"]["uuid"][:4]} for device in devices],
                         [{"gpu": 0, "uuid": "GPU-", "instance": number, "profile": "3g.20gb"} for number in (0, 1)])
        shown = self.ration("ps", f"--sim={self.node}", "--gpu", "0.1")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("[101] NVIDIA A100-SXM4-40GB MIG 3g.20gb (0.1)", shown.stdout)
        self.assertNotIn("[100]", shown.stdout)

    def test_the_limit_holds_on_the_chosen_instance(self):
        second = self.devices()[1]["uuid"]
        for chosen in ([], ["--gpu", "0.0"], ["--gpu", "0.1"], ["--gpu", second[:12]]):
            with self.subTest(chosen=chosen):
                done = self.ration("run", f"--sim={self.node}", *chosen, "--limit", "1GiB", "--", BIN / "ration-workload", "probe", "256")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(len(done.stdout.splitlines()), WAYS, "a way is missing")
                told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=self.node),
                                      capture_output=True, text=True, check=True)
                peaks = [device["peak_bytes"] for device in json.loads(told.stdout)["devices"]]
                self.assertEqual(peaks, [1024 * MIB, 1024 * MIB if chosen[1:] not in ([], ["0.0"]) else 0])

    def test_inside_nvml_says_the_limit_of_the_instance(self):
        script = """
import ctypes, uuid
from ctypes import byref, c_uint64, c_void_p
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
assert cuda.cuInit(0) == 0 and nvml.nvmlInit_v2() == 0
raw, handle, context, memory = (ctypes.c_char * 16)(), c_void_p(), c_void_p(), (c_uint64 * 3)()
assert cuda.cuDeviceGetUuid_v2(raw, 0) == 0 and cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
assert nvml.nvmlDeviceGetHandleByUUID(("MIG-" + str(uuid.UUID(bytes=raw.raw))).encode(), byref(handle)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(handle, memory) == 0
print(*memory)
"""
        done = self.ration("run", f"--sim={self.node}", "--gpu", "0.1", "--limit", "1GiB", "--", sys.executable, "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([int(number) // MIB for number in done.stdout.split()], [1024, 960, 64])

    def test_the_daemon_keeps_the_instances_apart(self):
        daemon = subprocess.Popen([BIN / "rationd", f"--sim={self.node}", "--state", f"{self.folder.name}/state", "--listen", "127.0.0.1:0"],
                                  env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (daemon.terminate(), daemon.communicate()))
        self.assertIn("http://", daemon.stdout.readline())
        held = subprocess.Popen([BIN / "ration", "run", f"--sim={self.node}", "--wait", "--gpu", "0.1", "--limit", "2GiB", "--name", "held", "--",
                                 BIN / "ration-workload", "hold", "1GiB"], env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (held.terminate(), held.communicate()))
        self.assertIn("holding", held.stdout.readline())
        first, second = self.devices()
        self.assertEqual((first["governed_bytes"], second["governed_bytes"], second["unexplained_bytes"]), (0, 1088 * MIB, 0))
        self.assertIn("held: limit 2.00 GiB → 3.00 GiB on GPU 101", self.ration("set", "held", "--gpu", "0.1", "--limit", "3GiB", f"--sim={self.node}").stdout)

    def test_where_a_context_is_measured_by_nvml_the_instance_is_asked(self):
        done = self.ration("run", f"--sim={self.node}", "--gpu", "0.1", "--limit", "1GiB", "--name", "held", "--", BIN / "ration-workload", "total")
        self.assertEqual(done.returncode, 0, done.stderr)
        costs = json.loads((pathlib.Path(self.folder.name) / "context-costs.json").read_text())
        self.assertEqual([(key[:4], cost) for key, cost in costs.items()], [("MIG-", 64 * MIB)])

    def test_the_card_itself_is_refused_in_words(self):
        done = self.ration("run", f"--sim={self.node}", "--gpu", "0", "--limit", "1GiB", "--", "true")
        self.assertEqual(done.returncode, 3)
        self.assertIn("GPU 0 is in MIG mode: programs use its instances. This machine has: 0.0 (NVIDIA A100-SXM4-40GB MIG 3g.20gb), 0.1", done.stderr)
        self.assertIn("Use --gpu 0.0", done.stderr)

    def test_two_are_refused_since_a_program_sees_one(self):
        done = self.ration("run", f"--sim={self.node}", "--gpu", "0.0,0.1", "--limit", "1GiB", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("one MIG instance and no other device", done.stderr)
        self.assertIn("ration run", done.stderr)


class Member:
    """One process of a workload, which exports and imports memory over a socket as it is told."""

    def __init__(self, arguments, environment, sock):
        self.program = subprocess.Popen([*arguments, BIN / "ration-workload", "obey", "--socket", str(sock.fileno())], env=environment,
                                        text=True, pass_fds=[sock.fileno()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, order):
        self.program.stdin.write(order + "\n")
        self.program.stdin.flush()
        return int(self.program.stdout.readline())

    def end(self, how=signal.SIGKILL):
        """Ends the program itself: `ration run` ends after it, so that neither runs when this returns."""
        if self.program.poll() is None:
            children = pathlib.Path(f"/proc/{self.program.pid}/task/{self.program.pid}/children").read_text().split()
            for pid in map(int, children or [self.program.pid]):
                os.kill(pid, how)
        self.program.communicate()


class Shared(Scene):
    """What the processes of a workload keep alive counts towards its limit, whoever took it."""
    NODE = "T4:16GiB:context=64MiB"
    FORMS = ("ipc", "descriptor", "pool")

    def pair(self):
        both = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in both:
            self.addCleanup(end.close)
        return both

    def member(self, name, limit, sock):
        one = Member([BIN / "ration", "run", f"--sim={self.NODE}", "--limit", limit, "--name", name, "--"], self.environment, sock)
        self.addCleanup(one.end)
        return one

    def second(self, first, sock):
        """Another process of the same workload."""
        self.assertEqual(first("free"), 0)  # it runs
        own = self.ration("ps", f"--sim={self.NODE}", "--json")
        pid = next(process["pid"] for row in json.loads(own.stdout)["data"] for process in row["processes"])
        environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        one = Member([], dict(entry.split(b"=", 1) for entry in environ if b"=" in entry), sock)
        self.addCleanup(one.end)
        return one

    def truly_used(self):
        return super().truly_used(self.NODE) // MIB

    def rows(self):
        told = self.ration("ps", f"--sim={self.NODE}", "--json")
        return {row["workload"]: row for row in json.loads(told.stdout)["data"]}

    def used_mib(self, name):
        return self.used(name) // MIB

    def fresh(self):
        """A node and a runtime folder of its own."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment.update(RATION_SIM_DIR=folder.name, RATION_RUNTIME_DIR=folder.name)

    def test_what_is_imported_from_workloads_that_end_is_within_the_limit(self):
        for form in self.FORMS:
            with self.subTest(form=form):
                self.fresh()
                here, there = self.pair()
                giver, taker = self.member("giver", "4GiB", here), self.member("taker", "1GiB", there)
                self.assertEqual([giver(f"{form} 256") for _ in range(6)], [0] * 6)
                self.assertEqual([taker("receive") for _ in range(6)], [0] * 6)
                self.assertEqual(taker("import"), 2, "not all of it")
                self.assertEqual(self.used_mib("taker"), 64 + 3 * 256)
                self.assertEqual((taker("take 256"), taker("take 128")), (2, 0))
                giver.end()
                self.assertEqual(self.truly_used(), 64 + 3 * 256 + 128)
                self.assertEqual(self.used_mib("taker"), 64 + 3 * 256 + 128)
                self.assertEqual([taker("let-go"), taker("take 768")], [0, 0])

    def test_within_a_workload_it_is_charged_once_until_the_last_lets_go(self):
        for form in self.FORMS:
            with self.subTest(form=form):
                self.fresh()
                here, there = self.pair()
                giver = self.member("both", "1GiB", here)
                taker = self.second(giver, there)
                self.assertEqual([giver(f"{form} 512"), taker("receive"), taker("import")], [0, 0, 0])
                self.assertEqual(self.used_mib("both"), 128 + 512)
                account = json.loads(self.ration("explain", "both", f"--sim={self.NODE}", "--json").stdout)["data"][0]
                self.assertEqual(account["shared_bytes"], 512 * MIB)
                self.assertEqual([process["shared_bytes"] // MIB for process in account["processes"]],
                                 [512, 0] if form == "pool" else [512, 512])
                self.assertEqual(giver("drop"), 0)
                self.assertEqual(self.used_mib("both"), 128 + 512, "the importer keeps it alive")
                self.assertEqual(self.truly_used(), 128 + 512)
                self.assertEqual((taker("take 512"), giver("take 384")), (2, 0))
                self.assertEqual(taker("let-go"), 0)
                self.assertEqual(self.used_mib("both"), 128 + 384)
                self.assertEqual(taker("take 512"), 0)

    def test_an_exporter_that_dies_leaves_its_memory_to_whoever_holds_it(self):
        for form in self.FORMS:
            for imported in (True, False):
                if form != "descriptor" and not imported:
                    continue  # plain bytes keep nothing
                with self.subTest(form=form, imported=imported):
                    self.fresh()
                    here, there = self.pair()
                    taker = self.member("both", "1GiB", there)
                    giver = self.second(taker, here)
                    self.assertEqual([giver(f"{form} 512"), taker("receive")], [0, 0])
                    if imported:
                        self.assertEqual(taker("import"), 0)
                    giver.end()
                    self.assertEqual(taker("take 512"), 2)
                    self.assertEqual((self.used_mib("both"), self.truly_used()), (64 + 512, 64 + 512))
                    self.assertEqual([taker("import"), taker("take 512"), taker("let-go"), taker("take 512")], [0, 2, 0, 0])
                    self.assertEqual((self.used_mib("both"), self.truly_used()), (64 + 512, 64 + 512))

    def test_a_descriptor_counts_wherever_it_is(self):
        here, there = self.pair()
        one = self.member("one", "1GiB", here)
        self.assertEqual([one("descriptor 512"), one("drop")], [0, 0])
        self.assertEqual((one("take 512"), self.used_mib("one"), self.truly_used()), (2, 64 + 512, 64 + 512))
        _, received, *_ = socket.recv_fds(there, 4096, 1)
        copy = os.dup(received[0])
        os.close(received[0])
        self.assertEqual(one("take 512"), 2, "a copy outside of the workload")
        os.close(copy)
        self.assertEqual(one("take 512"), 0)
        self.assertEqual((self.used_mib("one"), self.truly_used()), (64 + 512, 64 + 512))

    def test_a_row_tells_what_is_held_before_anybody_takes_more(self):
        here, there = self.pair()
        taker = self.member("both", "1GiB", there)
        giver = self.second(taker, here)
        self.assertEqual([giver("descriptor 512"), taker("receive")], [0, 0])
        giver.end()
        self.assertEqual((self.used_mib("both"), self.truly_used()), (64 + 512, 64 + 512))
        taker.end()
        self.assertEqual(self.rows(), {})

    def test_who_has_ended_stays_charged_while_a_descriptor_lives(self):
        here, there = self.pair()
        giver = self.member("giver", "1GiB", here)
        self.assertEqual(giver("descriptor 512"), 0)
        _, received, *_ = socket.recv_fds(there, 4096, 1)
        giver.end()
        row = self.rows()["giver"]
        self.assertEqual((row["state"], row["used_bytes"] // MIB, row["processes"]), ("ended", 512, []))
        self.assertEqual(self.truly_used(), 512)
        self.assertIn("ended, but other processes still share its memory", self.ration("ps", f"--sim={self.NODE}").stdout)
        os.close(received[0])
        self.assertEqual((self.rows(), self.truly_used()), ({}, 0))

    def test_what_came_from_a_program_without_a_limit_is_charged_once(self):
        here, there = self.pair()
        taker = self.member("taker", "1GiB", there)
        self.assertEqual(taker("free"), 0)
        free = Member([], dict(self.environment, RATION_SIM=self.NODE, LD_LIBRARY_PATH=str(BIN.parent / "sim")), here)
        self.addCleanup(free.end)
        self.assertEqual([free("descriptor 512"), taker("receive"), taker("import")], [0, 0, 0])
        self.assertEqual(self.used_mib("taker"), 64 + 512, "its size was found out")
        self.assertEqual([free("descriptor 512"), taker("receive"), taker("import")], [0, 0, 2])
        self.assertEqual([free("ipc 448"), taker("receive"), taker("import")], [0, 0, 0])
        self.assertEqual(self.used_mib("taker"), 1024)
        self.assertEqual(taker("let-go"), 0)
        self.assertEqual(self.used_mib("taker"), 64)

    def test_sharing_again_and_again_leaves_nothing_charged(self):
        here, there = self.pair()
        giver = self.member("both", "1GiB", here)
        taker = self.second(giver, there)
        for step in range(60):
            form = self.FORMS[step % 3]
            first, last = ((giver, "drop"), (taker, "let-go"))[::1 if step % 2 else -1]
            self.assertEqual([giver(f"{form} 512"), taker("receive"), taker("import")], [0, 0, 0], (step, form))
            self.assertEqual([first[0](first[1]), last[0](last[1])], [0, 0])
        self.assertEqual((self.used_mib("both"), self.truly_used()), (128, 128))


if __name__ == "__main__":
    unittest.main()
