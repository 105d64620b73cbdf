#!/usr/bin/env python3
"""`ration demo --scenario kubernetes` from outside: what it shows, what it says where it cannot start, and that nothing of it is left."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as one_node  # noqa: E402
import kubernetes_cluster  # noqa: E402

RATION = pathlib.Path(os.environ["BUILD_BIN"]) / "ration"
SCENARIO = one_node.SOURCE / "share/ration/scenarios/kubernetes"
NOBODY = 65534


class Demo(unittest.TestCase):
    def setUp(self):
        self.environment = dict(os.environ, RATION=str(RATION), MARK=str(uuid.uuid4()))

    def of_demo(self):
        """Its processes, by the mark that they all inherit."""
        mark = f"MARK={self.environment['MARK']}".encode()
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().decode().replace("\0", " ")
            except OSError:
                pass  # it has ended
        return found

    def start(self, *words):
        demo = subprocess.Popen([SCENARIO, *words], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(lambda: (demo.send_signal(signal.SIGTERM), demo.communicate()))
        return demo

    @unittest.skipIf(one_node.missing(), f"{', '.join(one_node.missing())}: not here; ./dev test kubernetes makes it")
    def test_the_fifth_of_five_pods_runs_once_one_has_ended_and_nothing_is_left(self):
        mounts = pathlib.Path("/proc/self/mounts").read_text()
        demo = self.start("--speed=1", "--keep")
        text = ""
        while "^C to take it down" not in text:
            line = demo.stdout.readline()
            self.assertTrue(line, text)
            text += line
        four, _, after = text.partition(" has ended, and ")
        waits = re.search(r"four run; (\w+) waits: (.+)", four)
        self.assertIn("cannot allocate all claims", waits[2])
        self.assertEqual((four.count(" Running "), four.count(" Pending "), four.count("4.00 GiB")), (4, 1, 4), text)
        self.assertEqual((after.count(" Running "), after.count("4.00 GiB")), (4, 4), text)
        self.assertIn(f"default.{waits[1]}.main", after)
        typed = re.search(r"In another terminal: sudo (.+)", text)[1].split()
        told = subprocess.run(typed, capture_output=True, text=True, timeout=60)
        self.assertEqual(told.stdout.count(" Running "), 4, told)
        kubelet = next(pid for pid, words in self.of_demo().items() if "/kubelet " in words)
        (group,) = re.findall(r"cgroupRoot: /(\S+)", pathlib.Path(f"/proc/{kubelet}/root/tmp/cluster/kubelet.yaml").read_text())
        self.assertTrue(all((hierarchy / group).exists() for hierarchy in kubernetes_cluster.hierarchies()))
        demo.send_signal(signal.SIGTERM)
        rest = demo.communicate(timeout=60)[0]
        self.assertEqual(demo.returncode, 0, rest)
        self.assertEqual(self.of_demo(), {})
        self.assertEqual([str(hierarchy) for hierarchy in kubernetes_cluster.hierarchies() if (hierarchy / group).exists()], [])
        self.assertEqual(pathlib.Path("/proc/self/mounts").read_text(), mounts)

    @unittest.skipIf(one_node.missing(), f"{', '.join(one_node.missing())}: not here; ./dev test kubernetes makes it")
    def test_one_that_is_ended_while_it_starts_leaves_nothing(self):
        demo = self.start()
        while "etcd, the API server" not in demo.stdout.readline():
            pass
        one_node.until(lambda: any("kube-apiserver" in words for words in self.of_demo().values()), "the API server is started")
        demo.send_signal(signal.SIGINT)
        rest = demo.communicate(timeout=60)[0]
        self.assertEqual((demo.returncode, self.of_demo()), (0, {}), rest)

    @unittest.skipUnless(os.geteuid() == 0, "root alone is told what is missing")
    def test_where_programs_are_missing_it_says_which_and_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            self.environment["KUBERNETES_BIN"] = folder
            done = subprocess.run([SCENARIO], env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn(f"not on PATH or in the folder KUBERNETES_BIN: {', '.join((*kubernetes_cluster.KUBERNETES, 'ration-kubernetes'))}.", done.stderr)
        self.assertIn("To do: ", done.stderr)
        self.assertIn("sudo KUBERNETES_BIN=", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "it is another user then")
    def test_without_root_it_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            for name in ("kubernetes", "kubernetes_cluster.py"):
                shutil.copy(SCENARIO.with_name(name), folder)
            done = subprocess.run([f"{folder}/kubernetes"], user=NOBODY, group=NOBODY, extra_groups=[], env=dict(self.environment, PATH="/usr/bin:/bin"),
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("sudo ration demo --scenario kubernetes", done.stderr)

    def test_other_words_are_rejected(self):
        self.assertEqual(subprocess.run([SCENARIO, "--forever"], env=self.environment, capture_output=True, timeout=60).returncode, 2)


if __name__ == "__main__":
    unittest.main()
