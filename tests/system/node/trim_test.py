#!/usr/bin/env python3
"""`ration trim` and programs that never heard of ration: their next call gives back what the driver's pools keep unused."""
import sys
import threading
import unittest

from node_case import BIN, NODE, SOURCE, Case

sys.path.append(str(SOURCE / "tests/system/limits"))
from program import MIB, Program  # noqa: E402

CONTEXT = 64 * MIB
# A pool that keeps everything, as TensorFlow, JAX and PyTorch set it; 512 MiB of it are in use, 256 are not.
KEEPS = """start(); own = stream(); there = default_pool(0)
assert cuda.cuMemPoolSetAttribute(there, 4, byref(c_uint64(2**64 - 1))) == 0
used, unused = take_async(512, own), take_async(256, own)
answer = [used[0], unused[0], cuda.cuMemFreeAsync(c_uint64(unused[1]), own), cuda.cuStreamSynchronize(own)]"""


class Trims(Case):
    def stock(self, *options):
        program = Program(self.environment, [BIN / "ration", "run", NODE, "--name", "stock", "--limit", "4GiB", *options, "--"])
        self.addCleanup(program.process.wait)
        self.addCleanup(program.process.kill)
        self.assertEqual(program.ask(KEEPS), [0, 0, 0, 0])
        self.held(768)
        return program

    def held(self, mib):
        self.until(lambda: self.row("stock")["used_bytes"] == CONTEXT + mib * MIB, f"{mib} MiB in the book")

    def asked(self):
        self.assertEqual(self.ask("POST", "/api/v1/workloads/stock/trim", {})[0], 202)

    def told(self):
        return self.until(lambda: self.events("trimmed"), "what the trim returned")[-1]["text"]

    def answers(self, call):
        program = self.stock()
        self.asked()
        self.assertEqual(program.ask(f"answer = {call}"), 0)
        self.held(512)

    def test_waiting_for_a_stream_answers(self):
        self.answers("cuda.cuStreamSynchronize(own)")

    def test_waiting_for_the_device_answers(self):
        self.answers("cuda.cuCtxSynchronize()")

    def test_asking_for_what_is_free_answers(self):
        self.answers("cuda.cuMemGetInfo_v2(byref(c_size_t()), byref(c_size_t()))")

    def test_freeing_answers(self):
        self.answers("cuda.cuMemFreeAsync(c_uint64(used[1]), own)")

    def test_what_came_back_is_told_and_what_could_come_back_beforehand(self):
        program = self.stock()
        self.assertIn("could return  the unused part of 768 MiB in pools of the driver", self.ration("trim", "stock", "--dry-run").stdout)
        self.asked()
        program.ask("answer = cuda.cuStreamSynchronize(own)")
        self.assertRegex(self.told(), r"stock gave back 256 MiB of 832 MiB$")

    def test_a_program_that_calls_nothing_keeps_its_memory_and_is_told_so(self):
        self.stock()
        self.asked()
        self.assertRegex(self.told(), r"stock gave back nothing of 832 MiB: .*the program called no function that frees memory or waits for the GPU$")
        self.held(768)

    def test_a_program_that_uses_all_that_it_holds_keeps_it_and_is_told_so(self):
        program = self.stock()
        self.assertEqual(program.ask("error, again = take_async(256, own); answer = [error, cuda.cuMemsetD8_v2(c_uint64(again), ctypes.c_ubyte(9), c_size_t(256 << 20))]"), [0, 0])
        self.asked()
        self.assertEqual(program.ask("answer = [cuda.cuStreamSynchronize(own), cuda.cuMemGetInfo_v2(byref(c_size_t()), byref(c_size_t()))]"), [0, 0])
        self.assertRegex(self.told(), r"stock gave back nothing of 832 MiB: all of it is in use")
        self.held(768)
        self.assertEqual(program.ask("read = (ctypes.c_ubyte * 4096)(); answer = [cuda.cuMemcpyDtoH_v2(read, c_uint64(again), c_size_t(4096)), set(read) == {9}]"), [0, True])

    def while_capturing(self, call):
        """MiB that the pool has after the call, which stands in a capture."""
        program = self.stock()
        self.assertEqual(program.ask("answer = [cuda.cuStreamBeginCapture_v2(own, 0), take_async(8, own)[0]]"), [0, 0])
        self.asked()
        error, reserved = program.ask(f"""answer = [{call}]; now, mode = c_uint64(), ctypes.c_int(2)
cuda.cuThreadExchangeStreamCaptureMode(byref(mode)); cuda.cuMemPoolGetAttribute(there, 5, byref(now)); cuda.cuThreadExchangeStreamCaptureMode(byref(mode))
answer.append(now.value >> 20)""")
        self.assertEqual(error, 0)
        self.assertEqual(program.ask("graph = c_void_p(); answer = [cuda.cuStreamEndCapture(own, byref(graph)), cuda.cuStreamSynchronize(own)]"), [0, 0])
        self.held(512)
        return reserved

    def test_a_call_for_a_captured_stream_leaves_the_answer_to_a_later_one(self):
        self.assertEqual(self.while_capturing("cuda.cuMemFreeAsync(c_uint64(take_async(8, own)[1]), own)"), 768)

    def test_an_answer_beside_a_capture_does_not_break_it(self):
        self.assertEqual(self.while_capturing("cuda.cuMemGetInfo_v2(byref(c_size_t()), byref(c_size_t()))"), 512)

    def test_contents_in_use_stay(self):
        program = self.stock()
        self.assertEqual(program.ask("answer = cuda.cuMemsetD8_v2(c_uint64(used[1]), ctypes.c_ubyte(7), c_size_t(512 << 20))"), 0)
        self.asked()
        self.assertEqual(program.ask("""answer = [cuda.cuStreamSynchronize(own)]
read = (ctypes.c_ubyte * 4096)()
for offset in range(0, 512 << 20, 64 << 20):
    answer.append(cuda.cuMemcpyDtoH_v2(read, c_uint64(used[1] + offset), c_size_t(4096)) or set(read) != {7})"""), [0] + [False] * 8)
        self.held(512)

    def waiting(self, program, waiter):
        """Lets the stock program work until the waiter has what it waits for."""
        while waiter.is_alive():
            self.assertEqual(program.ask("answer = cuda.cuStreamSynchronize(own)"), 0)
        waiter.join()
        event = self.until(lambda: self.events("trimmed"), "what came back")[-1]
        self.assertEqual((event["by"], event["arguments"]["returned_bytes"]), ("pressure", 256 * MIB))
        self.held(512)

    def test_who_waits_in_the_queue_gets_what_a_stock_program_does_not_use(self):
        program, done = self.stock(), []
        waiter = threading.Thread(target=lambda: done.append(self.ration("run", NODE, "--wait=60s", "--limit", "15.25GiB", "--", "true")))
        waiter.start()
        self.waiting(program, waiter)
        self.assertEqual(done[0].returncode, 0, done[0].stderr)

    def test_who_waits_inside_a_call_gets_it_too(self):
        program, answer = self.stock(), []
        other = Program(self.environment, [BIN / "ration", "run", NODE, "--name", "large", "--limit", "16GiB", "--on-deny", "wait:60s", "--"])
        self.addCleanup(other.process.wait)
        self.addCleanup(other.process.kill)
        waiter = threading.Thread(target=lambda: answer.append(other.ask("start(); answer = take(15600)[0]")))
        waiter.start()
        self.waiting(program, waiter)
        self.assertEqual(answer, [0])

    def test_a_request_beyond_its_own_limit_disturbs_nobody(self):
        program = self.stock()
        other = Program(self.environment, [BIN / "ration", "run", NODE, "--name", "small", "--limit", "1GiB", "--"])
        self.addCleanup(other.process.wait)
        self.addCleanup(other.process.kill)
        self.assertEqual(other.ask("start(); answer = take(1200)[0]"), 2)
        self.until(lambda: self.events("denied"), "the denial")
        self.assertEqual(program.ask("answer = cuda.cuStreamSynchronize(own)"), 0)
        self.held(768)


if __name__ == "__main__":
    unittest.main()
