#!/usr/bin/env python3
"""What `ration snippet` and `ration run --scope` print and start, held against the programs that read it."""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node_client import BIN, environment_in, own_folder  # noqa: E402

NODE = "--sim=T4:16GiB:context=512MiB"


class Snippets(unittest.TestCase):
    def setUp(self):
        self.folder = own_folder(self)
        (self.folder / "ration.toml").write_text("")
        self.environment = environment_in(self.folder)

    def ration(self, *words, **more):
        return subprocess.run([BIN / "ration", *words], env=dict(self.environment, **more), capture_output=True, text=True, timeout=60)

    def snippet(self, kind, *words):
        done = self.ration("snippet", NODE, kind, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @unittest.skipIf(shutil.which("systemd-analyze") is None, "systemd is not installed")
    def test_systemd_takes_the_drop_ins(self):
        for kind, unit, name in (("systemd", "train.service", "train.service"), ("systemd-user", "user@1000.service", "root")):
            command = ["--", "/bin/true", "--all"] if kind == "systemd" else []
            text = self.snippet(kind, name, "--limit", "8GiB", *command)
            (self.folder / unit).write_text("[Unit]\nDescription=x\n[Service]\nType=notify\nExecStart=/bin/false\n")
            drop_in = self.folder / f"{unit}.d/ration.conf"
            drop_in.parent.mkdir()
            drop_in.write_text(text)
            verified = subprocess.run(["systemd-analyze", "verify", "--man=no", "--generators=no", self.folder / unit],
                                      env=dict(self.environment, SYSTEMD_UNIT_PATH=f"{self.folder}:"), capture_output=True, text=True)
            said = [line for line in verified.stderr.splitlines() if "ration" in line or unit in line]
            self.assertEqual(said, [], verified.stderr)
            drop_in.write_text(text.replace("ExecStart=", "ExecStrat="))
            broken = subprocess.run(["systemd-analyze", "verify", "--man=no", "--generators=no", self.folder / unit],
                                    env=dict(self.environment, SYSTEMD_UNIT_PATH=f"{self.folder}:"), capture_output=True, text=True)
            self.assertIn("ExecStrat", broken.stderr, "the check sees a wrong drop-in")

    def test_a_job_of_slurm_is_held(self):
        text = self.snippet("slurm", "--limit", "4GiB", "--", "sh", "-c", 'echo "$1"; exec "$2" total', "-", "a $b c%d", BIN / "ration-workload")
        program = self.folder / "bin/srun"
        program.parent.mkdir()
        program.write_text('#!/bin/sh\nshift; shift; exec "$RATION" run "$NODE" "$@"\n')
        program.chmod(0o755)
        (self.folder / "job.sh").write_text(text)
        done = subprocess.run(["sh", self.folder / "job.sh"], capture_output=True, text=True,
                              env=dict(self.environment, PATH=f"{program.parent}:{os.environ['PATH']}", RATION=str(BIN / "ration"), NODE=NODE, SLURM_JOB_ID="17"))
        self.assertEqual((done.returncode, done.stdout), (0, f"a $b c%d\n{4 << 30}\n"), done.stderr)

    def test_jupyterhub_takes_the_lines(self):
        scope = {"c": type("c", (), {"Spawner": type("Spawner", (), {})})}
        exec(compile(self.snippet("jupyterhub", "--limit", "4GiB"), "jupyterhub_config.py", "exec"), scope)
        command = scope["c"].Spawner.cmd
        self.assertEqual(command[1:4], ["run", "--limit", "4GiB"])
        command[-1] = "/bin/true"
        self.assertEqual(subprocess.run([command[0], "run", NODE, *command[2:]], env=self.environment).returncode, 0)

    def test_fractions_of_model_servers_fit_together(self):
        for kind, flag in (("vllm", "--gpu-memory-utilization "), ("tf-serving", "--per_process_gpu_memory_fraction="), ("triton", "gpu-memory-fraction=")):
            text = self.snippet(kind, "--limit", "8GiB", "--instances", "3")
            fraction = float(text.split(flag)[1].split()[0])
            self.assertLessEqual(3 * (fraction * 8 + 0.5), 8)
            self.assertGreater(fraction, 0.25)

    def test_what_is_wrong_is_said(self):
        for words, number in ((("docker", "--limit", "4GiB"), "E1708"), (("systemd", "x.service", "--limit", "4GiB"), "E1708"), (("vllm", "--tenant", "nlp"), "E1708"),
                              (("vllm", "--limit", "20GiB"), "E1104"), (("compose", "image"), "E1707"), (("vllm", "--limit", "1GiB", "--instances", "3"), "E1708")):
            done = self.ration("snippet", NODE, *words)
            self.assertEqual((done.returncode != 0, done.stderr[:5]), (True, number), (words, done.stderr))

    def test_a_scope_is_asked_of_systemd(self):
        asked = self.folder / "asked"
        program = self.folder / "bin/systemd-run"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {asked}\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
        program.chmod(0o755)
        path = f"{program.parent}:{os.environ['PATH']}"
        done = self.ration("run", NODE, "--scope", "--limit", "3GiB", "--", BIN / "ration-workload", "total", PATH=path)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(3 << 30)), done.stderr)
        words = asked.read_text().splitlines()
        self.assertEqual(words[:3], ["--scope", "--collect", "--quiet"])
        self.assertNotIn("--scope", words[3:])
        missing = self.ration("run", NODE, "--scope", "--limit", "3GiB", "--", "true", PATH=str(self.folder))
        self.assertEqual((missing.returncode, missing.stderr[:5]), (125, "E1709"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
