#!/usr/bin/env python3
"""Requests that wait inside one workload (--on-deny wait): they are served in the order in which they came."""
import random
import signal
import subprocess
import unittest

from program import Program
from scene import BIN, CONTEXT, Scene

# Takes 180 MiB, works for 5 to 15 ms and frees them, until it is told to stop. `rounds` counts what it was given.
SMALL = """
start()
import random, threading, time
rounds, wrong, stop = 0, [], False
def play():
    global rounds
    enter(0)
    while not stop:
        result, address = take(180)
        if result: wrong.append(result); break
        time.sleep(random.uniform(0.005, 0.015)); cuda.cuMemFree_v2(c_uint64(address)); rounds += 1
thread = threading.Thread(target=play, daemon=True); thread.start()
while rounds < 5: time.sleep(0)
"""
STOP = "stop = True; thread.join(); answer = wrong"

# A cubin with a `__device__` array of so many MiB, and calls for libraries.
LIBRARIES = """
import struct, threading
def cubin(mib):
    names = b"\\0.nv.global\\0.shstrtab".ljust(32, b"\\0")
    header = struct.pack("<4s12B", b"\\x7fELF", 2, 1, 1, *[0] * 9) + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64 + 32, 0, 64, 0, 0, 64, 3, 1)
    section = lambda name, kind, flags, at, size: struct.pack("<IIQQQQIIQQ", name, kind, flags, 0, at, size, 0, 0, 1, 0)
    return header + names + section(0, 0, 0, 0, 0) + section(12, 3, 0, 64, 32) + section(1, 8, 3, 0, mib << 20)
def load(mib):
    made = c_void_p()
    return cuda.cuLibraryLoadData(byref(made), cubin(mib), *[None] * 2, 0, *[None] * 2, 0), made
def later(work):
    thread = threading.Thread(target=lambda: (enter(0), results.append(work())), daemon=True)
    thread.start()
    return thread
results = []
start()
"""


class Waits(Scene):
    def crowd(self):
        """A program, and seven processes of its workload: hardly ever are all of their requests freed at once."""
        program = self.program("--on-deny", "wait", limit="2GiB")
        self.inside = dict(self.environment, **program.ask("import os\nstart()\nanswer = {name: os.environ[name] for name in os.environ if 'RATION' in name or 'LD_' in name}"))
        small = [Program(self.inside, []) for _ in range(7)]
        for one in small:
            self.addCleanup(one.end)
            one.ask(SMALL)
        return program, small

    def test_a_large_request_is_served_beside_processes_that_take_again_what_they_free(self):
        program, small = self.crowd()
        self.assertEqual(program.ask("result, large = take(1400)\nanswer = result"), 0)
        program.ask("cuda.cuMemFree_v2(c_uint64(large))")
        self.assertEqual([one.ask(STOP) for one in small], [[]] * 7)
        self.assertEqual((self.rows("denials"), self.truth("used")), ([0], [8 * CONTEXT]))

    def test_waiting_processes_that_are_killed_or_stopped_hold_nobody_up(self):
        """They ask for what never fits beside the contexts of the others."""
        _, small = self.crowd()
        chance = random.Random(5)
        for end_of_it in [signal.SIGKILL] * 6 + [signal.SIGSTOP] * 2:
            waiter = subprocess.Popen([BIN / "ration-workload", "hold", "1900MiB"], env=self.inside, stdout=subprocess.DEVNULL)
            self.addCleanup(waiter.wait)
            self.addCleanup(waiter.kill)
            small[0].ask(f"end = rounds + {chance.randrange(20)}\nwhile rounds < end: time.sleep(0)")
            waiter.send_signal(end_of_it)
        for one in small:
            one.ask("end = rounds + 20\nwhile rounds < end: time.sleep(0)")
        self.assertEqual([one.ask(STOP) for one in small], [[]] * 7)

    def test_a_holder_that_needs_a_little_more_before_it_frees_gets_it(self):
        program = self.program("--on-deny", "wait")
        program.ask("""start(); _, held = take(800)
import threading
def wait(): global waited; enter(0); waited = take(900)[0]
waiting = threading.Thread(target=wait); waiting.start()""")
        while self.rows("state") != ["waiting"]:
            pass
        self.assertEqual(program.ask("answer = [take(10)[0] for _ in range(3)] + [cuda.cuMemFree_v2(c_uint64(held)), waiting.join(), waited]"), [0, 0, 0, 0, None, 0])
        self.assertEqual(self.rows("denials"), [0])

    def test_a_load_that_waits_holds_up_no_unload_and_no_small_load(self):
        """What it waits for is unloaded by a thread that loads a little more first."""
        program = self.program("--on-deny", "wait")
        self.assertEqual(program.ask(LIBRARIES + "error, big = load(600)\nanswer = error"), 0)
        program.ask("thread = later(lambda: load(700)[0])")
        while self.rows("state") != ["waiting"]:
            pass
        self.assertEqual(program.ask("answer = [load(10)[0], cuda.cuLibraryUnload(big), thread.join(), results]"), [0, 0, None, [0]])
        self.assertEqual((self.rows("used_bytes"), self.rows("denials")), ([CONTEXT + 710], [0]))

    def test_a_context_that_waits_holds_up_no_unload_and_has_the_libraries_that_there_are_then(self):
        program = self.program("--on-deny", "wait")
        self.assertEqual(program.ask(LIBRARIES + "error, first = load(400); error, second = load(100)\nanswer = error"), 0)
        program.ask("made = c_void_p(); thread = later(lambda: cuda.cuCtxCreate_v2(byref(made), 0, 0))")
        while self.rows("state") != ["waiting"]:
            pass
        self.assertEqual(program.ask("answer = [load(2)[0], cuda.cuLibraryUnload(first), thread.join(), results]"), [0, 0, None, [0]])
        self.assertEqual((self.rows("used_bytes"), self.truth("used")), ([2 * CONTEXT + 2 * 102], [2 * CONTEXT + 2 * 102]))

    def test_a_request_that_fits_is_not_denied_because_another_one_waits(self):
        """It may wait for a millisecond, and the one that waits before it in another process, for ever."""
        program = self.program("--on-deny", "wait:1ms")
        program.ask("""start(); _, held = take(800)
import threading
denied = 0
def ask():
    global denied
    enter(0)
    while denied < 200: denied += take(900)[0] == 2
thread = threading.Thread(target=ask); thread.start()""")
        self.assertEqual(program.ask("""results = []
while denied < 200:
    result, address = take(10); results.append(result); cuda.cuMemFree_v2(c_uint64(address))
thread.join()
answer = max(results)"""), 0)


if __name__ == "__main__":
    unittest.main()
