#!/usr/bin/env python3
"""Figures of the sources that pages quote."""
import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE"])


def page(name):
    return (SOURCE / name).read_text()


class Figures(unittest.TestCase):
    def test_the_ways_of_the_probe(self):
        ways = [name for file in (SOURCE / "sim/workload").glob("probe*.cpp") for name in re.findall(r'(?:{|way\()"([a-z0-9-]+)",', file.read_text())]
        of_two = [name for name in ways if name.endswith(("-other-device", "-two-devices"))]
        one, more = str(len(ways) - len(of_two)), str(len(of_two))
        self.assertEqual(re.findall(r"tries to exceed a limit in (\d+) ways", page("README.md")), [one])
        self.assertEqual(re.findall(r"`ration doctor --probe` tries (\d+) ways, and (\d+) more where there are two GPUs", page("docs/limits-of-enforcement.md")), [(one, more)])

    def test_what_the_workload_of_the_readme_leaves(self):
        (left,) = re.findall(r"capability_major == 7 \? (\d+) :", (SOURCE / "sim/workload/allocators.cpp").read_text())
        self.assertIn(f"all but {int(left):,} MiB of the 3 GiB", page("README.md"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
