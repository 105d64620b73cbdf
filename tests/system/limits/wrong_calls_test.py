#!/usr/bin/env python3
"""Wrong calls are answered as without the guard: every hooked function, every wrong argument, before cuInit, without a context and with one."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from limits_test import BIN, Scene  # noqa: E402
import wrong_calls  # noqa: E402

NODE = "T4:16GiB:context=64MiB"
PROGRAM = pathlib.Path(__file__).with_name("wrong_calls.py")
OUT_OF_MEMORY = 2

# What frameworks answer to want of memory with, they must not be told of a wrong call.
BEYOND_THE_LIMIT = """
import ctypes, struct
cuda, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
def create(device, size):
    memory = ctypes.create_string_buffer(struct.pack("iiii", 1, 0, 1, device), 40)
    return cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size), memory, ctypes.c_uint64(0))
answers = [create(0, 2 << 30), cuda.cuInit(0), cuda.cuCtxSetLimit(0, ctypes.c_size_t(1 << 20)), create(1, 2 << 30), create(0, (2 << 30) + 1), create(0, 2 << 30)]
print(*answers)
"""


class WrongCalls(Scene):
    def told(self, *launcher, **environment):
        done = subprocess.run([*launcher, sys.executable, PROGRAM], capture_output=True, text=True,
                              env=dict(self.environment, **environment), timeout=280)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_each_is_answered_as_without_the_guard_and_leaves_the_book_as_it_was(self):
        bare = self.told(RATION_SIM=NODE, LD_LIBRARY_PATH=str(BIN.parent / "sim"))
        guarded = self.told(BIN / "ration", "run", f"--sim={NODE}", "--limit", "1GiB", "--name", "wrong", "--")
        self.assertEqual({case: answer for case, answer in bare.items() if isinstance(answer, str)}, {}, "the driver itself survives each")

        def is_denial(case):  # of more than any limit
            return str(wrong_calls.BIG) in case and guarded[case][0] == OUT_OF_MEMORY
        differences = {case: (answer, guarded[case]) for case, answer in bare.items() if answer != guarded[case] and not is_denial(case)}
        self.assertEqual(differences, {})
        self.assertEqual([case for case, answer in guarded.items() if answer[2] != "as before"], [])

    def test_what_does_not_fit_is_denied_only_where_the_driver_would_give_it(self):
        done = self.ration("run", f"--sim={NODE}", "--limit", "1GiB", "--name", "beyond", "--", sys.executable, "-c", BEYOND_THE_LIMIT)
        self.assertEqual((done.returncode, done.stdout), (0, "3 0 201 101 1 2\n"), done.stderr)
        why = json.loads(self.ration("why", "beyond", "--json").stdout)["data"]
        self.assertEqual((why["function"], why["reason"]), ("cuMemCreate", "limit"))


if __name__ == "__main__":
    unittest.main()
