#!/usr/bin/env python3
"""ration beside NVIDIA's own user-space driver on a machine without a card, and beside a driver whose NVML does not answer: one clear line, and no
limit pretended."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from drivers import BUILD, DRIVERS, HERE, NONE_HERE, bare

RATION, WORKLOAD = BUILD / "bin/ration", BUILD / "bin/ration-workload"
NO_GPU = "no GPU found (cuInit answers error 100)."


class Machine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def on(self, driver):
        return bare(driver) | {"RATION_RUNTIME_DIR": str(self.folder / "run"), "RATION_SIM_DIR": str(self.folder / "sim"), "HOME": str(self.folder)}

    def run_on(self, driver, *words):
        return subprocess.run(words, env=self.on(driver), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def start_daemon(self, driver):
        """What a daemon says at its start, and what `ration ps` lists beside it."""
        daemon = subprocess.Popen([RATION, "serve", "--listen", "127.0.0.1:0", "--state", self.folder / "state"], env=self.on(driver), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            said = daemon.stdout.readline()  # it is reached from its first line on
            listed = self.run_on(driver, RATION, "ps", "-o", "json")
        finally:
            daemon.terminate()
            said += daemon.communicate()[0]
        self.assertEqual((daemon.returncode, listed.returncode), (0, 0), said + listed.stderr)
        return said, json.loads(listed.stdout)


class NoCard(Machine):
    def test_each_command_that_needs_a_gpu_says_so_once(self):
        for release in HERE:
            for words in ("run --limit 1GiB -- true", "run --limit 1GiB --require-enforced -- true", "fits 1GiB", "split 2", "env --limit 1GiB"):
                with self.subTest(words, release=release):
                    done = self.run_on(DRIVERS[release], RATION, *words.split())
                    self.assertEqual((done.returncode, done.stdout, done.stderr.count(NO_GPU)), (3, "", 1), done.stderr)
                    self.assertTrue(done.stderr.startswith("E1403 "), done.stderr)

    def test_what_lists_says_that_no_gpu_is_known(self):
        for release in HERE:
            with self.subTest(release=release):
                listed = self.run_on(DRIVERS[release], RATION, "ps")
                self.assertEqual((listed.returncode, listed.stdout.count(NO_GPU)), (0, 1), listed.stdout + listed.stderr)
                doctor = json.loads(self.run_on(DRIVERS[release], RATION, "doctor", "--only", "gpu", "-o", "json").stdout)["data"]
                found = {row["check"]: row for row in doctor}
                self.assertEqual((found["gpu.driver"]["result"], found["gpu.driver"]["message"]), ("FAIL", NO_GPU))
                self.assertIn("libcuda.so." + release, found["gpu.files"]["message"])

    def test_a_daemon_starts_and_says_it(self):
        for release in HERE:
            with self.subTest(release=release):
                said, listed = self.start_daemon(DRIVERS[release])
                self.assertEqual(said.count(NO_GPU), 1, said)
                self.assertEqual(listed["devices"], [])


class NoNvml(Machine):
    def test_limits_hold_and_what_nvml_would_tell_is_not_available(self):
        """The simulated driver, which has a card, beside NVIDIA's NVML, which finds none."""
        for release in HERE:
            with self.subTest(release=release):
                both = self.folder / release
                both.mkdir()
                shutil.copy(BUILD / "sim/libcuda.so.1", both)
                shutil.copy(DRIVERS[release] / "libnvidia-ml.so.1", both)
                done = self.run_on(both, RATION, "run", "--limit", "300MiB", "--", WORKLOAD, "steps", "100MiB:0s")
                self.assertIn("44.0 MiB free of 300 MiB", done.stderr)
                listed = self.run_on(both, RATION, "ps")
                self.assertIn("n/a (the driver does not report it)", listed.stdout)
                doctor = json.loads(self.run_on(both, RATION, "doctor", "--only", "gpu.driver", "-o", "json").stdout)["data"][0]
                self.assertEqual(doctor["result"], "WARN")
                self.assertRegex(doctor["message"], "no NVML: the memory of each process is n/a, and the size of a context is an estimate")
                _, listed = self.start_daemon(both)
                self.assertEqual(len(listed["devices"]), 1)
                self.assertTrue(listed["devices"][0]["used_bytes_na"])


if __name__ == "__main__":
    if not HERE:
        print(NONE_HERE)
        sys.exit(77)
    unittest.main(verbosity=2)
