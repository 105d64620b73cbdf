#!/usr/bin/env python3
"""What is charged less what is refunded is what the book has, at every event of random programs, and what the simulator truly holds at their end.

The book says what it has in every answer of cuMemGetInfo, which is recorded among the events: free is the limit less what is used.
"""
import random
import unittest

from recorded import MIB, Recorded

LIMIT = 1024

# A program that takes and returns memory of every kind at random, and asks after each step.
PROGRAM = """
import random, ctypes
from ctypes import *
dice = random.Random({seed})
live = []

def managed(mib):
    address = c_uint64()
    return cuda.cuMemAllocManaged(byref(address), c_size_t(int(mib * MIB)), 1), address.value

def pitched(mib):
    address, pitch = c_uint64(), c_size_t()
    return cuda.cuMemAllocPitch_v2(byref(address), byref(pitch), c_size_t(1000), c_size_t(max(1, int(mib * 1000))), 4), address.value

def array(mib):
    made, wanted = c_void_p(), (c_size_t * 3)(4096, max(1, int(mib * 64)), 0)
    shape = ctypes.create_string_buffer(bytes(wanted)[:16] + (0x20).to_bytes(4, "little") + (1).to_bytes(4, "little"))
    return cuda.cuArrayCreate_v2(byref(made), shape), made.value

def context():
    made = c_void_p()
    error = cuda.cuCtxCreate_v2(byref(made), 0, 0)
    if error == 0: cuda.cuCtxPopCurrent_v2(byref(c_void_p()))
    return error, made.value

KINDS = [
    (lambda size: take(size), lambda a: cuda.cuMemFree_v2(c_uint64(a))),
    (lambda size: take(size / 1000), lambda a: cuda.cuMemFree_v2(c_uint64(a))),
    (lambda size: take_async(size, own), lambda a: cuda.cuMemFreeAsync(c_uint64(a), own)),
    (lambda size: take_async(size, None), lambda a: cuda.cuMemFree_v2(c_uint64(a))),
    (lambda size: take(size), lambda a: cuda.cuMemFreeAsync(c_uint64(a), own)),
    (lambda size: create(2 * max(1, int(size / 2))), lambda a: cuda.cuMemRelease(c_uint64(a))),
    (lambda size: managed(size), lambda a: cuda.cuMemFree_v2(c_uint64(a))),
    (lambda size: pitched(size), lambda a: cuda.cuMemFree_v2(c_uint64(a))),
    (lambda size: array(size), lambda a: cuda.cuArrayDestroy(c_void_p(a))),
    (lambda size: pin(size), lambda a: unpin(a)),
    (lambda size: context(), lambda a: cuda.cuCtxDestroy_v2(c_void_p(a))),
]

def ask():
    free, total = c_size_t(), c_size_t()
    assert cuda.cuMemGetInfo_v2(byref(free), byref(total)) == 0

def step():
    if live and dice.random() < 0.45:
        kind, address = live.pop(dice.randrange(len(live)))
        assert KINDS[kind][1](address) == 0, kind
    elif dice.random() < 0.1:
        graph = temporary(dice.choice([2, 30, 100]))
        graph.launch()
        cuda.cuCtxSynchronize()
        graph.destroy()
    else:
        kind = dice.choices(range(len(KINDS)), [6, 6, 6, 2, 2, 3, 3, 2, 2, 3, 0.3])[0]
        error, address = KINDS[kind][0](dice.choice([1, 3, 17, 60, 200]))
        assert error in (0, 2), (kind, error)
        if error == 0: live.append((kind, address))
    if dice.random() < 0.2: cuda.cuCtxSynchronize()
    ask()

start()
own = stream()
for _ in range({steps}): step()
for kind, address in live:  # the simulator counts what of it is on the device, the book what may be there
    if kind == 6: KINDS[kind][1](address)
cuda.cuCtxSynchronize()
ask()
answer = len(live)
"""


class Conservation(Recorded):
    def check(self, recording, least):
        """Held bytes by the events against every answer; returns what is held at the last answer."""
        held, answers, last = {}, 0, 0
        for event in recording.events:
            place = "host" if event["account"] == 2 else event["device"]
            held[place] = held.get(place, 0) + event["charged"]
            self.assertGreaterEqual(held[place], 0, event)
            if event["kind"] != "asked" or event["detail"] != 1:
                continue
            answers += 1
            last = held.get(0, 0)
            self.assertEqual(LIMIT * MIB - event["bytes"], last, f"at {event['time']} ns, answer {answers}")
        self.assertGreater(answers, least)
        self.assertEqual({place: bytes for place, bytes in held.items() if bytes}, {})
        return last

    def test_of_random_programs(self):
        for seed in range(6):
            with self.subTest(seed=seed):
                self.setUp()
                program = self.program("--host-limit", "4GiB", limit=f"{LIMIT}MiB")
                program.ask(PROGRAM.format(seed=seed, steps=300))
                truth = program.ask("""
import json, os, subprocess
answer = json.loads(subprocess.run(["ration-sim-truth", "--json"], env={**os.environ, "LD_PRELOAD": ""}, capture_output=True, text=True).stdout or '{}')
""".replace("ration-sim-truth", str(self.tool("ration-sim-truth"))))
                program.end()
                recording = self.recording()
                last = self.check(recording, 250)
                device = truth["devices"][0]
                self.assertEqual(device["total_bytes"] - device["free_bytes"], last)
                self.assertTrue(recording.header["complete"])

    def test_inspect_has_the_same_numbers(self):
        program = self.program("--host-limit", "4GiB", limit=f"{LIMIT}MiB")
        program.ask(PROGRAM.format(seed=77, steps=300))
        program.end()
        recording, found = self.recording(), self.inspected()
        held = peak = 0
        for event in recording.events:
            held += event["charged"] if event["account"] != 2 else 0
            peak = max(peak, held)
        place = next(row for row in found["held"] if row["gpu"] == 0)
        self.assertEqual((found["events"], place["bytes"]), (len(recording.events), peak))
        self.assertEqual(sum(part["bytes"] for part in place["parts"]), peak)
        self.assertEqual([row[1] for row in recording.overview["places"] if row[0] == 0], [peak])

    def test_of_children_and_of_programs_that_replace_themselves(self):
        child = "import os, ctypes; cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0); c = ctypes.c_void_p(); cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0); " \
            "cuda.cuCtxSetCurrent(c); a = ctypes.c_uint64(); assert cuda.cuMemAlloc_v2(ctypes.byref(a), ctypes.c_size_t(5 << 20)) == 0; os._exit(0)"
        program = self.program(limit=f"{LIMIT}MiB")
        program.ask(f"""
import os, subprocess, sys
start(); take(100)
for way in range(3):
    pid = os.fork()
    if pid == 0:
        if way == 0: os.execv(sys.executable, [sys.executable, "-c", {child!r}])
        if way == 1: subprocess.run([sys.executable, "-c", {child!r}])
        os._exit(0)
    os.waitpid(pid, 0)
free, total = c_size_t(), c_size_t()
cuda.cuMemGetInfo_v2(byref(free), byref(total))
answer = 0""")
        program.end()
        recording = self.recording()
        self.check(recording, 0)
        sizes = sorted(event["bytes"] for event in recording.events if event["kind"] == "allocate" and event["address"])
        self.assertEqual(sizes, [5 * MIB, 5 * MIB, 100 * MIB])
        self.assertEqual(sum(1 for process in recording.header["processes"] if process["pid"]), 3)

    def test_of_threads(self):
        program = self.program(limit=f"{LIMIT}MiB")
        program.ask("""
import threading
start()
context = c_void_p()
cuda.cuCtxGetCurrent(byref(context))
def work():
    cuda.cuCtxSetCurrent(context)
    for _ in range(200):
        error, address = take(1)
        if error == 0: cuda.cuMemFree_v2(c_uint64(address))
threads = [threading.Thread(target=work) for _ in range(64)]
for thread in threads: thread.start()
for thread in threads: thread.join()
free, total = c_size_t(), c_size_t()
cuda.cuMemGetInfo_v2(byref(free), byref(total))
answer = 0""")
        program.end()
        recording = self.recording()
        self.check(recording, 0)
        taken = sum(event["kind"] == "allocate" and event["bytes"] == MIB for event in recording.events)
        self.assertEqual((taken, sum(event["kind"] == "free" and event["bytes"] == MIB for event in recording.events)), (64 * 200, 64 * 200))
        live = set()
        for event in recording.events:  # in the order in which addresses are reused
            if event["kind"] == "allocate" and event["bytes"] == MIB:
                self.assertNotIn(event["address"], live)
                live.add(event["address"])
            if event["kind"] == "free" and event["bytes"] == MIB:
                live.remove(event["address"])

    def test_a_changed_limit_and_a_denial_are_in_their_place(self):
        program = self.program("--name", "small", limit=f"{LIMIT}MiB")
        program.ask("start(); answer = take(100)[0]")
        self.ration("set", "small", "--limit", "512MiB")
        self.assertEqual(program.ask("answer = [take(1)[0], take(900)[0]]"), [0, 2])
        program.end()
        kinds = [(event["kind"], event["bytes"] // MIB) for event in self.recording().events if event["kind"] in ("limit_changed", "denied") or event["address"]]
        self.assertEqual([kind for kind in kinds if kind[0] in ("allocate", "limit_changed", "denied")], [("allocate", 100), ("limit_changed", 512), ("allocate", 1), ("denied", 900)])
        found = self.inspected()
        self.assertEqual([(row["bytes"] // MIB, row["by"]) for row in found["denials"]], [(900, "ration")])

    def test_what_nvml_answered_is_recorded_with_its_process(self):
        program = self.program(limit=f"{LIMIT}MiB")
        program.ask("""
import os
start(); take(100)
nvml = ctypes.CDLL("libnvidia-ml.so.1")
def look():
    card, told = c_void_p(), (c_uint64 * 3)()
    assert (nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(card)) or nvml.nvmlDeviceGetMemoryInfo(card, told)) == 0
look()
pid = os.fork()
if pid == 0:
    look()
    os._exit(0)
os.waitpid(pid, 0)
answer = 0""")
        program.end()
        recording = self.recording()
        asked = [(event["process"], event["bytes"] // MIB) for event in recording.events if event["kind"] == "asked" and event["detail"] == 3]
        self.assertEqual([bytes for _, bytes in asked], [LIMIT - 164] * 2)
        self.assertEqual(len({process for process, _ in asked}), 2)
        self.assertEqual({row["function"]: row["times"] for row in self.inspected()["asked"] if row["function"] == "NVML"}, {"NVML": 1})

    def test_marks_are_in_their_place(self):
        program = self.program(limit=f"{LIMIT}MiB")
        program.ask("""
start()
cuda.ration_shim_mark.argtypes = [ctypes.c_char_p]
for epoch in range(4):
    cuda.ration_shim_mark(f"epoch {epoch}".encode())
    take(10)  # never returned
answer = 0""")
        program.end()
        recording, found = self.recording(), self.inspected()
        marked = [recording.header["sites"][event["site"]] if event["kind"] == "mark" else "10 MiB" for event in recording.events
                  if event["kind"] == "mark" or event["kind"] == "allocate" and event["address"]]
        self.assertEqual(marked, [text for epoch in range(4) for text in (f"epoch {epoch}", "10 MiB")])
        self.assertEqual([mark["text"] for mark in found["marks"]], [f"epoch {epoch}" for epoch in range(4)])
        self.assertEqual([(row["bytes"] // MIB, row["count"], row["spans"]) for row in found["never_freed"]], [(10, 4, 4)])
        self.assertEqual(found["held"][0]["mark"], "epoch 3")


if __name__ == "__main__":
    unittest.main()
