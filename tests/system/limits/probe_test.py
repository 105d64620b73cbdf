#!/usr/bin/env python3
"""The probe of `ration doctor`: every way of taking memory that its source lists, on every release of the simulated driver, on one card and on two.

Judged by what the probe obtained and by the simulator's own record of the most that each device ever held.
"""
import json
import pathlib
import re
import subprocess
import unittest

from scene import BIN, MIB, Scene

SOURCE = pathlib.Path(__file__).parents[3]
RELEASES = sorted(file.stem for file in (SOURCE / "sim/drivers").glob("*.toml"))
WAYS = [name for file in (SOURCE / "sim/workload").glob("probe*.cpp") for name in re.findall(r'(?:{|way\()"([a-z0-9-]+)",', file.read_text())]
OF_TWO = {name for name in WAYS if name.endswith(("-other-device", "-two-devices"))}
OF_CHECKPOINTS = {"checkpointed"}  # since release 570
# By functions that release 470 lacks.
OF_CUDA_12 = {name for name in WAYS if name.startswith("library")} | {"async-by-address", "graph-by-parameters", "graph-instantiated-uploaded"}
OTHER_SIZES = {"mipmap", "small-blocks"}  # than the request's
LIMIT, CONTEXT, REQUEST = 256, 16, 64  # MiB: a child with a context of its own gets as many requests as the probe itself


class Probe(Scene):
    def probe(self, release, cards, gpus, *options):
        """Returns {name: (MiB obtained, the refusing error, whether everything came back)} of what was tried, and {name: why} of what was not."""
        self.setUp()
        self.node = f"T4:16GiB:context={CONTEXT}MiB*{cards},driver={release}"
        done = subprocess.run([BIN / "ration", "run", f"--sim={self.node}", "--gpu", gpus, "--limit", f"{LIMIT}MiB", "--", BIN / "ration-workload", "probe", str(REQUEST),
                               *options], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        tried = {name: (int(obtained) // MIB, int(error), after) for name, obtained, _, error, after in map(str.split, done.stdout.splitlines())}
        return tried, dict(re.findall(r"^ration-workload: skipped (\S+): (.*)$", done.stderr, re.MULTILINE))

    def test_the_source_lists_each_way_once(self):
        self.assertGreater(len(WAYS), 45)
        self.assertEqual(len(WAYS), len(set(WAYS)))

    def test_none_gets_past_the_limit(self):
        for release in RELEASES:
            for cards in (1, 2):
                with self.subTest(release=release, cards=cards):
                    tried, skipped = self.probe(release, cards, "0,1" if cards == 2 else "0")
                    self.assertEqual(sorted([*tried, *skipped]), sorted(WAYS))
                    lacking = (OF_CHECKPOINTS if int(release[:3]) < 570 else set()) | (OF_CUDA_12 if release == "470" else set()) | (OF_TWO if cards == 1 else set())
                    self.assertEqual(set(skipped), lacking)
                    for name, found in tried.items():
                        if name not in OTHER_SIZES:
                            self.assertEqual(found, ((LIMIT - CONTEXT) // REQUEST * REQUEST, 2, "returned"), name)
                    self.assertEqual({tried[name][1:] for name in OTHER_SIZES}, {(2, "returned")})
                    self.assertEqual(self.truth("used"), [0] * cards)
                    for peak in self.truth("peak"):
                        self.assertLessEqual(peak, LIMIT)

    def test_none_gets_memory_of_a_card_that_was_not_granted(self):
        for release in RELEASES:
            with self.subTest(release=release):
                tried, skipped = self.probe(release, 2, "0", "--other-device")
                self.assertEqual((set(tried), skipped), (OF_TWO, {}))
                for name, (obtained, error, after) in tried.items():
                    self.assertEqual((obtained, after), (0, "returned"), name)
                    self.assertIn(error, (2, 46), name)  # of a device without a context there is nothing to ask
                self.assertEqual(self.truth("peak"), [CONTEXT, 0])

    def told(self, node):
        done = subprocess.run([BIN / "ration", "doctor", f"--sim={node}", "--probe", "--only", "enforce.probe", "-o", "json"], env=self.environment, capture_output=True, text=True)
        row, = json.loads(done.stdout)["data"]
        self.assertEqual(row["result"], "OK")
        return row["message"]

    def test_doctor_tries_all_of_them_and_says_which_it_could_not(self):
        all_of_them, none = len(WAYS), "ways of allocating memory were tried under a limit of 64 MiB, and none exceeded it"
        alone = f"{len(OF_TWO)} not tried: there is one GPU"
        self.assertEqual(self.told("T4"), f"{all_of_them - len(OF_TWO)} {none}; {alone}")
        self.assertEqual(self.told("T4*2"), f"{all_of_them} {none}")
        self.assertEqual(self.told("T4*2,driver=560"), f"{all_of_them - 1} {none}; 1 not tried: the driver has no cuCheckpointProcessCheckpoint")
        self.assertEqual(self.told("A100-40:mig=3g.20gb*2"), f"{all_of_them - len(OF_TWO)} {none}; {alone}")

    def test_doctor_takes_no_error_for_a_limit_that_held(self):
        self.environment["RATION_SIM_FAULT"] = "cuMemMap:error=801"
        of_mappings = {"vmm-map-release", "vmm-mapped-twice", "vmm-retained"}
        self.assertIn(f"{len(WAYS) - len(OF_TWO) - len(of_mappings)} ways of allocating memory were tried", self.told("T4"))
        self.assertIn(f"; {len(of_mappings)} not tried: error 801", self.told("T4"))


if __name__ == "__main__":
    unittest.main()
