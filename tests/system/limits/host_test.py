#!/usr/bin/env python3
"""Pinned host memory: however a workload takes it, its processes together never hold more than their limit, and the book says what
the simulator knows."""
import json
import pathlib
import subprocess
import unittest

from program import HOST, HOST_NUMA
from scene import BIN, MIB, Scene

LIMIT = 64
OUT_OF_MEMORY = 2

# One of several processes that pin and unpin at random until they are killed: says each 200 calls how often it was denied so far.
CHURN = """
import random, sys
sys.path.insert(0, FOLDER)
import program
from program import *
program.start()
from program import cuda
chance, held, denied, calls = random.Random(int(sys.argv[1])), [], 0, 0
host = pool(kind=HOST)[1]
while True:
    error, way, mib = 0, chance.randrange(6), chance.choice([0.01, 0.3, 1, 5, 17])
    if way == 0:
        error, address = pin(mib)
        held += [(unpin, address)] * (not error)
    elif way == 1:
        pages, address = own_pages(mib)
        error = register(address, mib)
        held += [(lambda address, pages=pages: unregister(address), address)] * (not error)
    elif way == 2:
        error, address = take_from(host, mib)
        held += [(lambda address: cuda.cuMemFreeAsync(c_uint64(address), None) or cuda.cuStreamSynchronize(None), address)] * (not error)
    elif way == 3:
        error, handle = create(2 * max(1, mib // 2), HOST)
        held += [(lambda handle: cuda.cuMemRelease(c_uint64(handle)), handle)] * (not error)
    elif held:
        free, what = held.pop(chance.randrange(len(held)))
        assert free(what) == 0, way
    assert error in (0, 2), (way, error)
    denied, calls = denied + (error == 2), calls + 1
    if calls % 200 == 0:
        print(denied, flush=True)
"""


class HostMemory(Scene):
    NAME = "pinning"

    def limited(self, *options, limit=LIMIT):
        made = self.program(f"--host-limit={limit}MiB", *options)
        made.ask("start()")
        return made

    def row(self):
        (row,) = json.loads(self.ration("ps", "-o", "json"))["data"]
        return row

    def used(self):
        """MiB, by the book; the simulator says the same."""
        row = self.row()
        self.assertEqual((row["host_used_bytes"], sum(process["host_bytes"] for process in row["processes"])), (self.pinned(), self.pinned()))
        return row["host_used_bytes"] / MIB

    def test_every_way_of_pinning_counts_and_stops_at_the_limit(self):
        program = self.limited()
        takes = {
            "cuMemHostAlloc": ("pin({})", "unpin(made)"),
            "cuMemAllocHost": ("(lambda at: (cuda.cuMemAllocHost_v2(byref(at), c_size_t(int({} * MIB))), at.value))(c_void_p())", "unpin(made)"),
            "cuMemHostRegister": ("(lambda own: (register(own[1], {}), own))(own_pages({}))", "unregister(made[1])"),
            "cuMemHostRegister as memory of a device": ("(lambda own: (register(own[1], {}, 4), own))(own_pages({}))", "unregister(made[1])"),
            "cuMemCreate": ("create({}, HOST)", "cuda.cuMemRelease(c_uint64(made))"),
            "cuMemCreate on a node": ("create({}, HOST_NUMA, 0)", "cuda.cuMemRelease(c_uint64(made))"),
        }
        for way, (take, free) in takes.items():
            with self.subTest(way):
                self.assertEqual(program.ask(f"error, made = {take.format(40, 40)}; answer = error"), 0)
                self.assertEqual(self.used(), 40)
                self.assertEqual(program.ask(f"answer = ({take.format(26, 26)})[0]"), OUT_OF_MEMORY)
                self.assertEqual(program.ask("answer = [pin(24)[0], pin(0.001)[0]]"), [0, OUT_OF_MEMORY])
                self.assertEqual(self.used(), LIMIT)
                program.ask(f"answer = {free}")
                self.assertEqual(self.used(), 24)
                program.end()
                program = self.limited()
        row = self.row()
        self.assertEqual((row["host_limit_bytes"], row["host_peak_bytes"], row["host_denials"]), (LIMIT * MIB, 0, 0), "that of the last program")

    def test_a_pool_of_the_host_counts_what_it_reserves(self):
        for kind in (HOST, HOST_NUMA):
            with self.subTest(kind=kind):
                program = self.limited()
                self.assertEqual(program.ask(f"host = pool(0, {kind})[1]; error, made = take_from(host, 20); answer = error"), 0)
                reserved = self.used()
                self.assertGreaterEqual(reserved, 20)
                self.assertLessEqual(reserved, LIMIT)
                self.assertEqual(program.ask("answer = take_from(host, 50)[0]"), OUT_OF_MEMORY)
                self.assertEqual(program.ask("answer = pin(40)[0]"), OUT_OF_MEMORY)
                program.ask("cuda.cuMemFreeAsync(c_uint64(made), None), cuda.cuStreamSynchronize(None), cuda.cuMemPoolTrimTo(host, c_size_t(0))")
                self.assertEqual(self.used(), 0)
                self.assertEqual(program.ask("answer = pin(64)[0]"), 0)
                program.end()

    def test_pages_of_a_file_count_whole(self):
        program = self.limited()
        program.ask("import tempfile; file = tempfile.TemporaryFile(); file.truncate(8 << 20); pages, at = own_pages(8, file)")
        self.assertEqual(program.ask("answer = register(at + 100, 1)"), 0)
        self.assertEqual(self.used(), 1 + 4096 / MIB)
        self.assertEqual(program.ask("answer = [register(at + 100, 1), unregister(at), unregister(at + 100), unregister(at + 100)]"), [712, 713, 0, 713])
        self.assertEqual(self.used(), 0)

    def test_memory_of_the_device_and_of_the_host_are_apart(self):
        program = self.limited()
        self.assertEqual(program.ask("answer = [pin(64)[0], take(500)[0], pin(1)[0]]"), [0, 0, OUT_OF_MEMORY])
        self.assertEqual(self.rows("used_bytes"), [500 + 64])
        self.assertEqual((self.used(), self.rows("denials"), self.rows("host_denials")), (64, [0], [1]))

    def test_without_a_limit_it_is_counted_and_never_denied(self):
        program = self.program()
        program.ask("start()")
        self.assertEqual(program.ask("answer = [pin(3000)[0], pin(200)[0]]"), [0, 0])
        self.assertEqual(self.used(), 3200)
        self.assertEqual((self.row()["host_limit_bytes"], self.row()["host_peak_bytes"]), (None, 3200 * MIB))

    def test_wrong_calls_are_answered_by_the_driver(self):
        """Also where nothing more fits: a call that takes nothing is no denial."""
        calls = ["cuda.cuMemHostAlloc(None, c_size_t(1 << 20), 0)", "pin(0)[0]", "register(0, 1)", "register(at, 0)", "register(at, 1)", "unpin(0)",
                 "unpin(at)", "unregister(0)", "cuda.cuCtxSetCurrent(None) or pin(1)[0]"]
        answers = []
        for options, taken in ((["--host-limit=unlimited"], 0), ([f"--host-limit={LIMIT}MiB"], 63)):
            program = self.program(*options)
            program.ask("start(); pages, at = own_pages(1)")
            self.assertEqual(program.ask(f"answer = register(at, 1) or {taken} and pin({taken})[0]"), 0)
            answers.append([program.ask(f"answer = {call}") for call in calls])
            self.assertEqual(self.row()["host_denials"], 0)
            program.end()
        self.assertEqual(*answers)

    def test_what_a_context_pinned_goes_with_it(self):
        program = self.limited()
        program.ask("context = c_void_p(); cuda.cuCtxCreate_v2(byref(context), 0, 0); pages, at = own_pages(20)")
        self.assertEqual(program.ask("answer = [pin(30)[0], register(at, 20)]"), [0, 0])
        self.assertEqual(self.used(), 50)
        self.assertEqual(program.ask("answer = cuda.cuCtxDestroy_v2(context)"), 0)
        self.assertEqual(self.used(), 0)
        self.assertEqual(program.ask("enter(0); answer = [pin(60)[0], cuda.cuDevicePrimaryCtxReset_v2(0)]"), [0, 0])
        self.assertEqual(self.used(), 0)
        self.assertEqual(program.ask("enter(0); answer = pin(64)[0]"), 0)

    def test_a_child_holds_what_it_pins_itself(self):
        program = self.limited()
        self.assertEqual(program.ask("answer = pin(20)[0]"), 0)
        child = f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r}); import program as p; p.start(); print(p.pin(30)[0], p.pin(30)[0], flush=True); input()"
        program.ask(f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)")
        self.assertEqual(program.ask("answer = child.stdout.readline()"), "0 2\n")
        self.assertEqual(self.used(), 50)
        program.ask("child.kill(); child.wait()")
        self.assertEqual(self.used(), 20)
        self.assertEqual(program.ask("import os\nread, write = os.pipe()\nif os.fork() == 0:\n  os.write(write, b'%d' % pin(1)[0]); os.execvp('true', ['true'])\nanswer = os.read(read, 9).decode()")[:1] != "", True)
        self.assertEqual(program.ask("os.wait(); answer = [pin(44)[0], pin(1)[0]]"), [0, OUT_OF_MEMORY])

    def test_four_processes_at_random_and_killed_hold_no_byte_more_and_leave_none(self):
        program = self.limited()
        churn = CHURN.replace("FOLDER", repr(str(pathlib.Path(__file__).parent)))
        program.ask(f"churn = {churn!r}\ndef begin(seed): return subprocess.Popen([sys.executable, '-c', churn, str(seed)], stdout=subprocess.PIPE, text=True)")
        program.ask("running = [begin(seed) for seed in range(4)]")
        denied = 0
        for killed in range(12):
            one = killed % 4
            denied += int(program.ask(f"answer = running[{one}].stdout.readline()"))
            self.assertLessEqual(self.row()["host_used_bytes"], LIMIT * MIB)
            program.ask(f"running[{one}].kill(); running[{one}].wait(); running[{one}] = begin({killed + 4})")
        self.assertGreater(denied, 0, "the limit was met")
        program.ask("[(one.kill(), one.wait()) for one in running]")
        self.assertLessEqual(self.pinned("peak_bytes"), LIMIT * MIB)
        self.assertGreater(self.pinned("peak_bytes"), LIMIT * MIB * 3 // 4)
        self.assertEqual(self.used(), 0)
        self.assertEqual(program.ask("answer = [pin(64)[0], pin(0.1)[0]]"), [0, OUT_OF_MEMORY], "all of it is there again")

    def test_one_that_waits_gets_what_another_frees(self):
        program = self.limited("--on-deny=wait:20s")
        self.assertEqual(program.ask("import threading, time; error, made = pin(60); answer = error"), 0)
        program.ask("later = threading.Timer(0.3, lambda: unpin(made)); later.start()")
        self.assertEqual(program.ask("answer = pin(30)[0]"), 0)
        self.assertEqual(self.used(), 30)

    def test_errors_of_a_size_name_the_machine(self):
        for text, words in (("0.5", "Write 50% (of the machine's memory) or 512MiB"), ("99999999TiB", "more than any machine has"), ("max-900TiB", "more than the machine has"), ("7", "E1101")):
            done = subprocess.run([BIN / "ration", "run", "--sim=T4:16GiB", "--host-limit", text, "--", "true"], env=self.environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr)
            self.assertNotIn("GPU", done.stderr)

    def test_nothing_is_pinned_under_a_book_that_cannot_be_used(self):
        program = self.program("--host-limit=64MiB")
        with open(program.ask("import os; answer = os.environ['RATION_BOOK']"), "r+b") as book:
            book.write(bytes(64))
        self.assertEqual(program.ask("cuda = ctypes.CDLL('libcuda.so.1'); import program; program.cuda = cuda; answer = cuda.cuInit(0)"), 0)
        self.assertEqual(program.ask("answer = [program.create(2, HOST)[0], program.create(2)[0]]"), [OUT_OF_MEMORY, OUT_OF_MEMORY])
        self.assertEqual(program.ask("answer = program.take_from(program.pool(0, HOST)[1], 2)[0] != 0"), True)
        self.assertEqual(self.pinned(), 0)

    def test_a_size_that_is_none_is_rejected(self):
        for text, words in (("", "E1001"), ("0", "E1101"), ("0GiB", "E1105"), ("1KiB", "E1105"), ("many", "E1102"), ("4", "E1101"), ("900TiB", "E1104"), ("-1GiB", "E110")):
            with self.subTest(text):
                done = subprocess.run([BIN / "ration", "run", "--sim=T4:16GiB", "--host-limit", text, "--", "true"], env=self.environment, capture_output=True, text=True)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr, words)
        plan = subprocess.run([BIN / "ration", "run", "--sim=T4:16GiB", "--host-limit", "1GiB", "--dry-run", "-o", "json", "--", "true"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(json.loads(plan.stdout)["data"]["host_limit_bytes"], 1 << 30)


if __name__ == "__main__":
    unittest.main()
