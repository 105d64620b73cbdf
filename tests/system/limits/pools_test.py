#!/usr/bin/env python3
"""Stream-ordered pools under a limit: whose device a pool is, is asked of the driver, and however many there are, each is held.

Judged by the simulator's own record of the most that each device ever held.
"""
import json
import unittest

from scene import CONTEXT, MIB, Scene


class PoolsOfDevices(Scene):
    NAME = "pools"

    WHICH = {"the device's own": "there = default_pool(1)",
             "one that was made": "_, there = pool(1)"}

    def test_a_pool_of_another_device_counts_for_its_own(self):
        for which, lines in self.WHICH.items():
            with self.subTest(pool=which):
                self.setUp()
                program = self.program("--gpu", "0,1", cards=2)
                self.assertEqual(program.ask(f"start(2); own = stream(); {lines}; answer = [take_from(there, 400, own)[0] for _ in range(4)]"), [0, 0, 2, 2])
                self.assertEqual(self.rows("used_bytes"), self.truth("used"))
                self.assertEqual(program.ask("enter(1); answer = [take(160)[0], take(96)[0], take_from(there, 400)[0]]"), [2, 0, 2])
                self.assertLessEqual(self.truth("peak")[1], 1024)
                self.assertEqual(self.truth("peak")[0], CONTEXT)

    def test_a_pool_of_a_device_that_was_not_granted_gives_nothing(self):
        for which, lines in self.WHICH.items():
            with self.subTest(pool=which):
                self.setUp()
                program = self.program("--gpu", "0", cards=2)
                self.assertEqual(program.ask(f"start(); own = stream(); {lines}; answer = [take_from(there, 4, own)[0] for _ in range(2)]"), [2, 2])
                self.assertEqual(self.truth("peak"), [CONTEXT, 0])
                self.assertIn("GPU 1 was not granted to pools", self.ration("why"))

    def test_a_pool_of_the_host_is_no_memory_of_a_device(self):
        """Whoever made it, and on whatever stream it is used."""
        program = self.program()
        if program.ask("start(); answer = cuda.cuMemGetDefaultMemPool is not None and pool(0, HOST)[0]") != 0:
            self.skipTest("this driver has none")
        self.assertEqual(program.ask("""answer = []
for error, there in (pool(0, HOST), pool(0, HOST_NUMA)):
    answer.append([error] + [take_from(there, 512, own)[0] for own in (None, stream(), None, stream())])
usual, place = c_void_p(), Location(HOST, 0)
answer.append([cuda.cuMemGetDefaultMemPool(byref(usual), byref(place), 1)] + [take_from(usual, 512)[0] for _ in range(4)])"""), [[0] * 5] * 3)
        self.assertEqual((self.truth("used"), self.rows("used_bytes"), self.rows("denials")), ([CONTEXT], [CONTEXT], [0]))
        self.assertEqual(program.ask("answer = [take(960)[0], take(2)[0]]"), [0, 2])

    def test_a_pool_that_a_program_put_in_place_of_the_device_s_own_is_held(self):
        program = self.program("--gpu", "0,1", cards=2)
        if program.ask("start(2); error, mine = pool(1); answer = error or cuda.cuDeviceSetMemPool(1, mine)") != 0:
            self.skipTest("this driver keeps its own")
        self.assertEqual(program.ask("enter(1); own = stream(); enter(0); answer = [take_async(400, own)[0] for _ in range(4)]"), [0, 0, 2, 2])
        self.assertEqual(self.rows("used_bytes"), self.truth("used"))
        self.assertEqual(self.truth("peak")[0], CONTEXT)

    def test_the_first_pool_is_held_behind_many_others(self):
        program = self.program()
        self.assertEqual(program.ask("start(); many = [pool() for _ in range(1000)]; answer = [max(error for error, _ in many), [take_async(100)[0] for _ in range(12)]]"),
                         [0, [0] * 7 + [2] * 5])
        self.assertEqual(program.ask("answer = [take_from(many[i][1], 32)[0] for i in range(500, 520)]"), [0, 0] + [2] * 18)
        self.assertLessEqual(self.truth("peak"), [1024])
        self.assertEqual(self.rows("used_bytes"), self.truth("used"))

    def test_pools_come_and_go_without_end(self):
        program = self.program()
        self.assertEqual(program.ask("""start(); bad = 0
for _ in range(3000):
    error, made = pool(); one, address = take_from(made, 4)
    bad += error or one or cuda.cuMemPoolDestroy(made) or cuda.cuMemFreeAsync(c_uint64(address), None)
cuda.cuCtxSynchronize(); answer = bad"""), 0)
        self.assertEqual((self.rows("used_bytes"), self.truth("used")), ([CONTEXT], [CONTEXT]))

    def test_no_pool_is_a_wrong_one_also_after_others_were_destroyed(self):
        program = self.program()
        self.assertEqual(program.ask("""
start(); made = [pool()[1] for _ in range(256)]
taken = [take_from(one, 1) for one in made]
for _, address in taken: cuda.cuMemFreeAsync(c_uint64(address), None)
cuda.cuCtxSynchronize()
for one in made: cuda.cuMemPoolDestroy(one)
answer = take_from(None, 2048)[0]"""), 1)  # CUDA_ERROR_INVALID_VALUE, no denial

    def test_freeing_no_address_answers_as_without_the_guard(self):
        ask = """
start(); made = [pool()[1] for _ in range(8)]
held = [take(1) for _ in range(64)] + [take_from(one, 1) for one in made * 9]
answer = [function(c_uint64(0), *more) for function, more in ((cuda.cuMemFree_v2, ()), (cuda.cuMemFreeAsync, (None,))) for _ in range(3)]
for _, address in held: answer.append(cuda.cuMemFree_v2(c_uint64(address)))"""
        answers = self.program().ask(ask)
        self.assertEqual(answers[6:], [0] * 136)
        self.assertEqual(answers[:6], [answers[0]] * 3 + [answers[3]] * 3)
        self.assertEqual(self.rows("used_bytes"), self.truth("used"))

    def test_more_pools_than_can_be_watched_are_denied_on_the_record(self):
        program = self.program()
        self.assertEqual(program.ask("start(); made = 0\nwhile pool()[0] == 0: made += 1\nanswer = [made, take_async(100)[0]]"), [1 << 16, 2])
        for number, function in (1, "cuMemPoolCreate"), (2, "cuMemAllocAsync"):
            self.assertIn(f"all 65536 entries of the guard's table for {function} were in use", self.ration("why", f"d-1-{number}"))
        self.assertEqual(json.loads(self.ration("why", "d-1-2", "--json"))["data"]["reason"], "table_full")

    def test_attributes_of_a_pool_change_nothing_about_the_limit(self):
        """What it keeps when it is idle, and what it uses again: on its own, all at once, and taken back."""
        reuse = [1, 2, 3]  # across events, opportunistically, by dependencies of its own
        threshold = 4
        for attributes in [{threshold: (1 << 64) - 1}, {threshold: 0}, *({one: 0} for one in reuse), {one: 0 for one in reuse}, {threshold: (1 << 64) - 1, 1: 0, 2: 0, 3: 0}]:
            with self.subTest(attributes=attributes):
                self.setUp()
                program = self.program()
                self.assertEqual(program.ask(f"""start(); own, other = stream(), stream(); _, made = pool()
def put(attribute, value): return cuda.cuMemPoolSetAttribute(made, attribute, byref(c_uint64(value) if attribute == 4 else c_int(value)))
answer = []
for attribute, value in {list(attributes.items())}: answer.append(put(attribute, value))"""), [0] * len(attributes))
                denied = program.ask("""denied = 0
for turn in range(40):
    taken = [take_from(made, 64, (own, other)[turn % 2]) for _ in range(20)]
    denied += sum(error == 2 for error, _ in taken)
    for error, address in taken:
        if error == 0: cuda.cuMemFreeAsync(c_uint64(address), (other, own)[turn % 2])
    if turn % 3 == 0: cuda.cuCtxSynchronize()
answer = denied""")
                self.assertGreaterEqual(denied, 5 * 40, "of 20 blocks of 64 MiB 15 fit")
                self.assertLessEqual(self.truth("peak"), [1024])
                self.assertEqual(self.rows("used_bytes"), self.truth("used"))
                program.ask("cuda.cuCtxSynchronize(); cuda.cuMemPoolTrimTo(made, c_size_t(0))")
                self.assertEqual((self.rows("used_bytes"), self.truth("used")), ([CONTEXT], [CONTEXT]))
                self.assertEqual(program.ask("answer = [take(960)[0], take(2)[0]]"), [0, 2])


class PlainMemory(Scene):
    NAME = "pools"

    def test_what_is_freed_on_a_stream_is_taken_off_when_the_stream_has_come_to_it(self):
        for name, own in (("the default one", "None"), ("its own", "stream()")):
            with self.subTest(stream=name):
                self.setUp()
                program = self.program()
                self.assertEqual(program.ask(f"""start(); own = {own}; answer = []
for mib in (300, 200, 0.25, 310):
    taken = [take(mib) for _ in range(3)]
    answer.append([error for error, _ in taken] + [cuda.cuMemFreeAsync(c_uint64(address), own) for _, address in taken] + [cuda.cuStreamSynchronize(own)])"""),
                                 [[0] * 7] * 4)
                self.assertEqual((self.rows("used_bytes"), self.truth("used"), self.rows("denials")), ([CONTEXT], [CONTEXT], [0]))
                self.assertEqual(program.ask("answer = [take(960)[0], take(2)[0]]"), [0, 2])

    def test_what_the_driver_does_not_free_on_a_stream_stays_charged(self):
        program = self.program()
        self.assertNotEqual(program.ask("start(); _, address = take(500); answer = cuda.cuMemFreeAsync(c_uint64(address + 512), None)"), 0)
        self.assertEqual(program.ask("answer = [take(500)[0], cuda.cuMemFreeAsync(c_uint64(address), None), take(900)[0]]"), [2, 0, 0])
        self.assertLessEqual(self.truth("peak"), [1024])

    def test_a_stream_that_is_at_work_is_waited_for(self):
        self.environment["RATION_SIM_LATENCY"] = "kernel=20ms"
        program = self.program()
        self.assertEqual(program.ask("""start(); own, busy = stream(), Graph(); answer = []
for _ in range(5):
    error, address = take(900)
    answer.append([error, busy.instantiate(), busy.launch(own), cuda.cuMemFreeAsync(c_uint64(address), own)])"""), [[0] * 4] * 5)
        self.assertLessEqual(self.truth("peak"), [1024])


class WhatAnotherThreadChanges(Scene):
    """Between the guard's look at where memory comes from and the driver's work."""
    NAME = "changes"

    def assert_held(self):
        self.assertLessEqual(self.truth("peak"), [1024])
        self.assertEqual(self.rows("used_bytes"), self.truth("used"))

    def rounds(self, before, change, take):
        """At its work the simulated driver holds the thread that takes."""
        self.environment["RATION_SIM_HOLD"] = "cuMemAllocAsync:before=20ms"
        return self.program().ask(f"""import threading
start(); own, graph, answer = stream(), c_void_p(), []
(_, one), (_, other) = pool(), pool()
for _ in range(20):
    {before}
    started = threading.Event()
    thread = threading.Thread(target=lambda: (started.wait(), {change}))
    thread.start()
    started.set()
    answer.append({take}[0])
    thread.join()""")

    def test_the_pool_in_place_of_the_device_s_own(self):
        errors = self.rounds("cuda.cuDeviceSetMemPool(0, one)", "cuda.cuDeviceSetMemPool(0, other)", "take_async(100)")
        self.assertIn(2, errors)
        self.assert_held()

    def test_the_end_of_a_capture(self):
        self.rounds("cuda.cuStreamBeginCapture_v2(own, 2)", "cuda.cuStreamEndCapture(own, byref(graph))", "take_async(100, own)")
        self.assert_held()

    def test_a_primary_context_that_is_reset(self):
        program = self.program()
        storm, later = program.ask("""import threading
start(); cuda.cuDevicePrimaryCtxRelease_v2(0)
running = threading.Event()
running.set()
def reset():
    while running.is_set(): cuda.cuDevicePrimaryCtxReset_v2(0)
thread = threading.Thread(target=reset)
thread.start()
answer = set()
for _ in range(20000):
    context = c_void_p()
    if cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0:
        cuda.cuCtxSetCurrent(context)
        answer.add(take_async(100)[0])
        cuda.cuDevicePrimaryCtxRelease_v2(0)
running.clear()
thread.join()
context_made = cuda.cuDevicePrimaryCtxRetain(byref(context), 0); cuda.cuCtxSetCurrent(context)
answer = sorted(answer), [context_made, *(take_async(100)[0] for _ in range(11))]""")
        self.assertIn(0, storm)
        self.assertIn(2, later)  # the pool of the device keeps its memory when the context is reset: no room for another
        self.assert_held()

    def test_the_description_of_an_array(self):
        """Changed while the call waits for room."""
        program = self.program("--on-deny", "wait")
        program.ask("""import threading
start(); _, block = take(400); take(560)
class Description(ctypes.Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_uint), ("channels", c_uint)]
description, array, answer = Description(64, 8192, 0x20, 1), c_void_p(), None
context = c_void_p()
cuda.cuCtxGetCurrent(byref(context))
thread = threading.Thread(target=lambda: (cuda.cuCtxSetCurrent(context), cuda.cuArrayCreate_v2(byref(array), byref(description))))
thread.start()""")
        while json.loads(self.ration("ps", "-o", "json"))["data"][0]["state"] != "waiting":
            self.assertTrue(program.ask("answer = thread.is_alive()"))
        program.ask("description.width = 8192; cuda.cuMemFree_v2(c_uint64(block)); thread.join(); take(300)")
        self.assert_held()

    def test_an_allocation_in_a_capture(self):
        """The driver answers questions about a captured stream with an error, and the capture is lost."""
        program = self.program()
        self.assertEqual(program.ask("""start(); own = stream(); answer = []
for mode in (0, 1, 2):
    graph, error = c_void_p(), cuda.cuStreamBeginCapture_v2(own, mode)
    taken, block = take_async(100, own)
    answer.append([error, taken, cuda.cuMemFreeAsync(c_uint64(block), own), cuda.cuStreamEndCapture(own, byref(graph))])"""), [[0] * 4] * 3)

    def test_a_pool_that_is_used_while_another_thread_captures(self):
        """Questions about a pool are unsafe calls: a capture of any thread forbids them, unless the asking thread is relaxed."""
        program = self.program()
        self.assertEqual(program.ask("""import threading
start(); own, other, graph, answer = stream(), stream(), c_void_p(), []
context, fresh = c_void_p(), pool(0)[1]
cuda.cuCtxGetCurrent(byref(context))
def at_work():
    cuda.cuCtxSetCurrent(context)
    for there in (None, fresh):
        error, block = take_async(100, other) if there is None else take_from(there, 100, other)
        answer.append([error, cuda.cuMemFreeAsync(c_uint64(block), other)])
answer.append(cuda.cuStreamBeginCapture_v2(own, 0))
thread = threading.Thread(target=at_work)
thread.start(); thread.join()
answer.append(cuda.cuStreamEndCapture(own, byref(graph)))"""), [0, [0, 0], [0, 0], 0])
        self.assert_held()


if __name__ == "__main__":
    unittest.main()
