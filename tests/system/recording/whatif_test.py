#!/usr/bin/env python3
"""What-if against the truth: under the smallest limit that a recording names a program is granted all, one granule less denies it, and at the event that was
foretold."""
import json
import pathlib
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
        told = subprocess.run([BIN / "ration", "whatif", file, "-o", "json", *words], env=self.environment, capture_output=True, text=True)
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

    def test_a_program_that_failed_leaves_a_doubt(self):
        for code in (0, 3):
            self.file = self.folder / f"ended-{code}.rec"
            subprocess.run([*self.run_line(limit="2GiB"), "sh", "-c", f"{BIN}/ration-workload steps 300MiB:0s; exit {code}"], env=self.environment, capture_output=True)
            doubts = [doubt for doubt in self.asked(self.file)["doubts"] if "ended with" in doubt]
            self.assertEqual([doubt.split(",")[0] for doubt in doubts], ["the recorded program ended with 3"] if code else [])

    def test_the_program_itself_runs_under_the_limit(self):
        words = ["steps", "300MiB:0s", "+200MiB:0s"]
        file = self.play(2 << 30, *words)
        smallest = self.asked(file)["answers"][0]["smallest_limit_bytes"]
        ran = self.asked(file, "--limit", f"{smallest}B", "--run")["run"]
        self.assertEqual((ran["grade"], ran["fits"], ran["exit_code"], ran["gpus"][0]["denials"], ran["gpus"][0]["peak_bytes"]), ("run", True, 0, 0, smallest))
        self.assertIn("Tesla T4:17179869184B", ran["simulated"])
        short = self.asked(file, "--limit", f"{smallest - 2 * MIB}B", "--run", code=4)
        self.assertEqual(short["run"]["gpus"][0]["first_denial"]["requested_bytes"], short["answers"][0]["first_denial"]["requested_bytes"])
        self.assertNotEqual(short["run"]["exit_code"], 0)
        self.assertEqual(subprocess.run(["ls", self.folder], capture_output=True, text=True).stdout.count("ration-whatif"), 0)

    def test_another_program_and_another_gpu_can_be_named(self):
        file = self.play(2 << 30, "steps", "300MiB:0s")
        ran = self.asked(file, "--run", "--sim=A10", "--", "/bin/sh", "-c", "echo printed; exit 3", code=4)["run"]
        self.assertEqual((ran["exit_code"], ran["simulated"], ran["program"][0]), (3, "A10", "/bin/sh"))
        nowhere = subprocess.run([BIN / "ration", "whatif", file, "--run"], env=dict(self.environment, TMPDIR="/nonexistent"), capture_output=True, text=True)
        self.assertEqual((nowhere.returncode, nowhere.stderr.split()[0]), (2, "E1817"))
        for words, error in ((["--", "true"], "E1814"), (["--run", "--", "/nonexistent"], "E1817")):
            done = subprocess.run([BIN / "ration", "whatif", file, *words], env=self.environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(error, done.stderr)

    def test_a_deep_recording_says_so_and_frameworks_are_told(self):
        self.file = self.folder / "deep.rec"
        asked = dict(self.environment, PYTORCH_ALLOC_CONF="expandable_segments:True")
        done = subprocess.run([*self.run_line("--deep"), "env"], env=asked, capture_output=True, text=True)
        told = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        self.assertEqual([told.get(name) for name in ("PYTORCH_ALLOC_CONF", "TF_GPU_ALLOCATOR", "XLA_PYTHON_CLIENT_ALLOCATOR")],
                         ["backend:cudaMallocAsync", "cuda_malloc_async", "cuda_async"])
        header = self.recording().header
        self.assertEqual((header["deep"], header["command"], header["folder"]), (True, ["env"], str(pathlib.Path.cwd())))
        self.assertEqual(subprocess.run([BIN / "ration", "run", "--deep", "--", "true"], env=self.environment, capture_output=True).returncode, 2)

    def test_a_limit_is_recommended_from_recordings_as_from_the_history(self):
        files = []
        for number in range(5):
            files.append(self.play((2 << 30) + number * MIB, "steps", f"{300 + 100 * number}MiB:0s"))
        told = subprocess.run([BIN / "ration", "recommend", *files, "-o", "json"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(told.returncode, 0, told.stderr)
        data = json.loads(told.stdout)["data"]
        peak = (700 + 64) * MIB
        self.assertEqual((data["runs"], data["enough"], data["peak_max_bytes"]), (5, True, peak))
        self.assertEqual(data["limit_bytes"], -(-(peak * 21 // 20 + 2 * MIB) // (256 * MIB)) * 256 * MIB)
        few = subprocess.run([BIN / "ration", "recommend", files[0]], env=self.environment, capture_output=True, text=True)
        self.assertIn("1 run (need 5)", few.stdout)

    def test_a_recorded_run_fits_where_it_is_large_enough(self):
        file = self.play(2 << 30, "steps", "300MiB:0s")
        fits = [BIN / "ration", "fits", f"--sim={self.NODE}", "--recording", file]
        self.assertEqual(subprocess.run(fits, env=self.environment, capture_output=True).returncode, 0)
        small = [*fits[:2], "--sim=T4:300MiB:context=64MiB", *fits[3:]]
        self.assertEqual(subprocess.run(small, env=self.environment, capture_output=True).returncode, 4)


if __name__ == "__main__":
    unittest.main()
