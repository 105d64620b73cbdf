#!/usr/bin/env python3
"""What-if against the truth: under the smallest limit that a recording names a program is granted all, one granule less denies it, and at the event that was
foretold."""
import json
import subprocess
import unittest

from recorded import BIN, MIB, Recorded


class WhatIf(Recorded):
    def play(self, limit, *words):
        """Whether the program had no denial under the limit, and what is recorded of it."""
        self.file = self.folder / f"{limit // MIB}.rec"
        done = subprocess.run([*self.run_line(limit=f"{limit}B"), BIN / "ration-workload", *words], env=self.environment, capture_output=True, text=True)
        self.assertIn(self.file.name, done.stderr)
        return self.file

    def asked(self, file, *words, code=0):
        told = subprocess.run([BIN / "ration", "whatif", file, *words, "-o", "json"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(told.returncode, code, told.stderr)
        return json.loads(told.stdout)["data"]["recordings"][0]

    def test_the_smallest_limit_passes_and_a_granule_less_is_denied_where_it_was_foretold(self):
        for words in (["replay", "medium_512_inference"], ["steps", "300MiB:0s", "+200MiB:0s", "100MiB:0s", "450MiB:0s"]):
            with self.subTest(words=words):
                free = self.play(12 << 30, *words)
                row = self.asked(free)["answers"][0]
                smallest = row["smallest_limit_bytes"]
                self.assertEqual((row["allocator"], row["grade"], row["reason"]), ("as recorded", "exact", ""))
                exact = self.asked(self.play(smallest, *words))
                self.assertEqual((exact["denied"], exact["answers"][0]["smallest_limit_bytes"]), (0, smallest))
                foretold = self.asked(free, "--limit", f"{smallest - 2 * MIB}B", code=4)["answers"][0]["first_denial"]
                self.play(smallest - 2 * MIB, *words)
                denied = next(event for event in self.recording().events if event["kind"] == "denied")
                self.assertEqual(denied["bytes"], foretold["requested_bytes"])

    def test_a_recorded_run_fits_where_it_is_large_enough(self):
        file = self.play(2 << 30, "steps", "300MiB:0s")
        fits = [BIN / "ration", "fits", f"--sim={self.NODE}", "--recording", file]
        self.assertEqual(subprocess.run(fits, env=self.environment, capture_output=True).returncode, 0)
        small = [*fits[:2], "--sim=T4:300MiB:context=64MiB", *fits[3:]]
        self.assertEqual(subprocess.run(small, env=self.environment, capture_output=True).returncode, 4)


if __name__ == "__main__":
    unittest.main()
