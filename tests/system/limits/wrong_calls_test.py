#!/usr/bin/env python3
"""Wrong calls are answered as without the guard: every hooked function, every wrong argument, before cuInit, without a context, with one, and with memory of each kind held."""
import concurrent.futures
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
# Functions whose calls leave what freeing all that is held does not give back, and what that is.
STAYS = {"cuCtxSetLimit": "what a context set aside, as long as it lives", "cuMemExportToShareableHandle": "descriptors, which nobody closes",
         "cuDevicePrimaryCtxRelease": "less: the context of the second card has ended", "cuDevicePrimaryCtxReset": "less: the contexts are inactive"}

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
    def told(self, node, limit, *arguments):
        """What the program tells without the guard and with it, each on a card of its own, side by side."""
        def run(name, *launcher, **environment):
            folder = pathlib.Path(self.folder.name) / f"{name}{len(arguments)}{node.count('*')}"
            folder.mkdir()
            done = subprocess.run([*launcher, sys.executable, PROGRAM, *arguments], capture_output=True, text=True,
                                  env=dict(self.environment, RATION_SIM_DIR=str(folder), RATION_RUNTIME_DIR=str(folder), **environment), timeout=280)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)
        with concurrent.futures.ThreadPoolExecutor() as both:
            bare = both.submit(run, "bare", RATION_SIM=node, LD_LIBRARY_PATH=str(BIN.parent / "sim"))
            guarded = both.submit(run, "guarded", BIN / "ration", "run", f"--sim={node}", "--limit", limit, "--name", "wrong", "--")
            return bare.result(), guarded.result()

    def expect_the_same(self, bare, guarded):
        self.assertEqual({case: answer for case, answer in bare.items() if isinstance(answer, str)}, {}, "the driver itself survives each")

        def is_denial(case):  # of more than any limit
            return str(wrong_calls.BIG) in case and guarded[case][0] == OUT_OF_MEMORY
        differences = {case: (answer, guarded.get(case)) for case, answer in bare.items() if answer[:2] != guarded.get(case, [])[:2] and not is_denial(case)}
        self.assertEqual(differences, {})
        self.assertEqual([case for case, answer in guarded.items() if answer[2] != "as before"], [])

    def test_each_is_answered_as_without_the_guard_and_leaves_the_book_as_it_was(self):
        self.expect_the_same(*self.told(NODE, "1GiB"))

    def test_so_is_each_with_memory_of_each_kind_held_and_the_book_has_the_figures_of_the_driver(self):
        for cards in (1, 2):
            with self.subTest(cards=cards):
                told = self.told(NODE + ("*2" if cards > 1 else ""), "12GiB", "held", str(cards))
                self.expect_the_same(*({name: answer for name, answer in one.items() if " figures " not in name} for one in told))
                bare, guarded = ({name: figures for name, figures in one.items() if " figures " in name} for one in told)
                wrong = {name: figures for name, figures in guarded.items() if not name.endswith("at the beginning") and not self.are_the_drivers(name, *figures)}
                self.assertEqual(wrong, {})
                for function in wrong_calls.functions():
                    first, last = guarded[f"{function} figures at the beginning"][0], guarded[f"{function} figures when all is freed"][0]
                    self.assertEqual(last, bare[f"{function} figures when all is freed"][0], function)
                    self.assertTrue(last == first or function.removesuffix("_v2") in STAYS, (function, first, last))

    @staticmethod
    def are_the_drivers(name, book, truth):
        """Managed memory is charged before it has come to the card."""
        return book == truth or name == "cuMemAllocManaged figures after all calls" and all(mine >= its for mine, its in zip(book, truth))

    def test_what_does_not_fit_is_denied_only_where_the_driver_would_give_it(self):
        done = self.ration("run", f"--sim={NODE}", "--limit", "1GiB", "--name", "beyond", "--", sys.executable, "-c", BEYOND_THE_LIMIT)
        self.assertEqual((done.returncode, done.stdout), (0, "3 0 201 101 1 2\n"), done.stderr)
        why = json.loads(self.ration("why", "beyond", "--json").stdout)["data"]
        self.assertEqual((why["function"], why["reason"]), ("cuMemCreate", "limit"))


if __name__ == "__main__":
    unittest.main()
