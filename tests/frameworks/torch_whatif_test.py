#!/usr/bin/env python3
"""What-if about a recorded program of PyTorch against that program: under the smallest limit that it names for an allocator the program passes, and with one
granule less it is denied the very tensor that was foretold. Run by the Python that has PyTorch."""
import json
import pathlib
import subprocess
import unittest

from case import RATION, TORCH, FrameworkCase, MiB

ALLOCATORS = {"pytorch": "", "pytorch:expandable_segments:True": "expandable_segments:True", "pytorch:max_split_size_mb:40": "max_split_size_mb:40",
              "cuda_malloc_async": "backend:cudaMallocAsync"}


class WhatIf(FrameworkCase):
    prelude = TORCH
    PROGRAM = """
        import random
        random.seed(3)
        live = []
        for step in range(600):
            if live and random.random() < 0.45:
                live.pop(random.randrange(len(live)))
                continue
            size = random.choice([1 << 10, 300 << 10, 3 << 20, 17 << 20, 60 << 20]) + random.randrange(1 << 20)
            try: live.append(bytes_(size))
            except RuntimeError:
                print(size)
                sys.exit(17)
        print(0)
    """

    def asked(self, file, allocator, *words, code=0):
        told = subprocess.run([RATION, "whatif", file, "--allocator", allocator, "-o", "json", *words], env=self.environment, capture_output=True, text=True)
        self.assertIn(told.returncode, (0, 4), told.stderr)
        return json.loads(told.stdout)["data"]["recordings"][0]["answers"][1]

    def test_what_it_names_passes_and_a_granule_less_is_denied_the_tensor_that_was_foretold(self):
        file = pathlib.Path(self.folder.name, "run.rec")
        self.assertEqual(self.run_program(self.PROGRAM, limit="8GiB", options=("--record", file, "--deep")), 0)
        for allocator, setting in ALLOCATORS.items():
            with self.subTest(allocator=allocator):
                smallest = self.asked(file, allocator)["smallest_limit_bytes"]
                self.assertEqual(self.run_program(self.PROGRAM, limit=f"{smallest}B", PYTORCH_ALLOC_CONF=setting), 0)
                denied = self.run_program(self.PROGRAM, limit=f"{smallest - 2 * MiB}B", code=17, PYTORCH_ALLOC_CONF=setting)
                self.assertEqual(denied, self.asked(file, allocator, "--limit", f"{smallest - 2 * MiB}B")["first_denial"]["requested_bytes"])


if __name__ == "__main__":
    unittest.main()
