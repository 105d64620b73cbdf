#!/usr/bin/env python3
"""The pages of docs/scenarios whose programs are PyTorch's, as written there. Run by the Python that has it."""
import os
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.setdefault("BUILD", str(SOURCE / "build/release")))
os.environ.setdefault("BUILD_BIN", str(BUILD / "bin"))
os.environ.setdefault("SOURCE", str(SOURCE))
sys.path.insert(0, str(SOURCE / "tests/system/docs"))
import docs_test  # noqa: E402


class Stories(unittest.TestCase):
    def play(self, name):
        page = docs_test.Page(self, PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", PYTHONPATH=f"{SOURCE / 'tests/frameworks/ending'}:{SOURCE / 'libration/python'}",
                              RATION_LIBRARY=str(BUILD / "lib/libration.so.1"))
        docs_test.play(self, SOURCE / "docs/scenarios" / f"{name}.md", page)

    def test_a_training_that_dies_after_forty_steps(self):
        self.play("leak")

    def test_two_model_servers_on_one_card(self):
        self.play("two-servers")

    def test_from_24_to_16_gb(self):
        self.play("smaller-card")

    def test_why_the_drivers_number_is_larger_than_the_tensors(self):
        self.play("where-is-the-rest")


if __name__ == "__main__":
    unittest.main()
