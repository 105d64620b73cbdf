#!/usr/bin/env python3
"""What `ration whatif --with` says of two recorded runs on one GPU, against both programs as real processes on one simulated card, started at random moments."""
import json
import os
import random
import subprocess
import tempfile
import time
import unittest

from recorded import BIN, MIB, Recorded

PAIRS, STARTS = 3, 2
STEP = 0.5  # seconds, the least that a program holds an amount
CLEAR = 0.2  # seconds between a start and the next one with another answer: programs are not more punctual than that


class Together(Recorded):
    def line(self, file, words, size):
        return [BIN / "ration", "run", f"--sim=T4:{size}B:context=64MiB", "--record", file, "--", BIN / "ration-workload", "steps", *words]

    def alone(self, name, words):
        file = self.folder / f"{name}.rec"
        subprocess.run(self.line(file, words, 16 << 30), env=self.environment, capture_output=True, check=True)
        return file

    def answer(self, first, second, size):
        told = subprocess.run([BIN / "ration", "whatif", first, "--with", second, "--gpu", f"{size}B", "--allocator", "none", "-o", "json"], env=self.environment,
                              capture_output=True, text=True)
        self.assertIn(told.returncode, (0, 4), told.stderr)
        return json.loads(told.stdout)["data"]["side_by_side"]["together"]

    def played(self, words, size, start):
        """Whether one of both is denied memory, and how much later the second one really started."""
        with tempfile.TemporaryDirectory() as card:
            own = dict(self.environment, RATION_SIM_DIR=card, RATION_RUNTIME_DIR=card)
            running, files = [], [self.folder / "first.rec", self.folder / "second.rec"]
            order = [0, 1] if start >= 0 else [1, 0]
            for which in order:
                running.append(subprocess.Popen(self.line(files[which], words[which], size), env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                if which == order[0]:
                    time.sleep(abs(start))
            denied = any([program.wait() != 0 for program in running])
        began = []
        for file in files:
            self.file = file
            began.append(self.recording().header["began_unix_ns"])
        return denied, (began[1] - began[0]) / 1e9

    def test_random_pairs_at_random_starts_fit_where_it_says_so(self):
        seed = int(os.environ.get("RATION_TEST_SEED", "7"))
        dice = random.Random(seed)
        answers = set()
        for pair in range(PAIRS):
            words = [[f"{64 * dice.randint(1, 12)}MiB:{STEP * dice.randint(1, 3):.1f}s" for _ in range(3)] for _ in range(2)]
            files = [self.alone(f"{pair}-{which}", words[which]) for which in range(2)]
            worst = self.answer(*files, 16 << 30)["worst_bytes"]
            size = worst - 64 * MIB  # some starts fit, some do not
            over = [(each["from_seconds"], each["to_seconds"]) for each in self.answer(*files, size)["starts_over"]]
            self.assertTrue(over)
            edges = [edge for each in over for edge in each]
            inside, outside = [sum(each) / 2 for each in over], [over[0][0] - 2 * CLEAR, over[-1][1] + 2 * CLEAR]
            tries = [dice.choice(inside), dice.choice(outside)] + [dice.uniform(over[0][0] - 1, over[-1][1] + 1) for _ in range(STARTS)]
            for start in tries:
                denied, really = self.played(words, size, start)
                if min(abs(really - edge) for edge in edges) < CLEAR:
                    continue
                foretold = any(begin <= really <= end for begin, end in over)
                answers.add(foretold)
                self.assertEqual(denied, foretold, f"seed {seed}: {words} on {size // MIB} MiB, {really:.2f} s apart; foretold for {over}")
        self.assertEqual(answers, {False, True}, "both answers are tried")


if __name__ == "__main__":
    unittest.main()
