#!/usr/bin/env python3
"""Jobs of a real Slurm under a limit by one option, on simulated cards: two nodes of this machine, each with a daemon of its own."""
import fcntl
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from engine_case import BUILD, GIB, MIB, SOURCE  # noqa: E402
sys.path.insert(0, str(SOURCE / "share/ration/scenarios"))
sys.dont_write_bytecode = True
import slurm_cluster  # noqa: E402
from node_client import BIN, UnixConnection  # noqa: E402
from slurm_cluster import ACCOUNTING, PROGRAMS, Cluster, has_device_groups, missing, own_system, until  # noqa: E402

RELEASE = os.environ.get("RATION_TEST_SLURM")  # as 24.11, which `./dev test slurm` unpacks with ration's package; the installed one, with ration as it was built, where it says none
UNPACKED = SOURCE / f"build/slurm/{RELEASE}"
PLUGIN = BUILD / ("lib/ration" if RELEASE else "slurm") / "ration_spank.so"
NOBODY = 65534
WORKLOAD = str(BIN / "ration-workload")
MANY = int(os.environ.get("RATION_TEST_JOBS", "100"))
CARD = "H200:141GiB:context=64MiB"
NODES = {"n1": 2, "n2": 1}  # GPUs


class Node(slurm_cluster.Node):
    def get(self, path):
        connection = UnixConnection(self.folder / "ration/ration.sock")
        connection.request("GET", path)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer["data"]

    def rows(self):
        return {row["workload"]: row for row in self.get("/api/v1/workloads") if row["governed"]}

    def truth(self):
        told = subprocess.run(self.inside(BIN / "ration-sim-truth", "--json"), env=self.environment, capture_output=True, text=True, check=True)
        return [dict(device, used_bytes=device["total_bytes"] - device["free_bytes"]) for device in json.loads(told.stdout)["devices"]]

    def used(self):
        return sum(device["used_bytes"] for device in self.truth())

    def left(self):
        """Books of jobs that count as running, and what hooks keep."""
        return sorted(path.name for inside in ("granted", "making", "slurm") for path in (self.folder / "ration" / inside).glob("*"))


class SlurmCase(unittest.TestCase):
    accounting = False

    @classmethod
    def setUpClass(cls):
        lacking = missing(PROGRAMS + (ACCOUNTING if cls.accounting else ()))
        if lacking:
            raise unittest.SkipTest(f"{', '.join(lacking)} not installed: ./dev test slurm")
        if not PLUGIN.exists():
            raise unittest.SkipTest("the plugin was not built: libslurm-dev")
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.folder.chmod(0o755)
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.nodes = {}
        for name, gpus in NODES.items():
            cls.nodes[name] = node = Node(cls.folder, name, [CARD] * gpus, BIN / "ration")
            cls.addClassCleanup(node.close)
        cls.cluster = Cluster(cls.folder / "slurm", cls.nodes, PLUGIN, cls.accounting, has_device_groups())
        cls.addClassCleanup(cls.cluster.end)

    def run_as(self, *words, **options):
        """As a user of the cluster."""
        return self.cluster.call(*words, user=NOBODY, group=NOBODY, extra_groups=[], **options)

    def srun(self, *words, **options):
        return self.run_as("srun", *words, **options)

    def sbatch(self, script, *options, **more):
        done = self.run_as("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", script, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.addCleanup(self.cluster.call, "scancel", job)
        return job

    def show(self, job):
        return self.cluster.call("scontrol", "-d", "show", "job", job).stdout

    def nothing_left(self):
        until(lambda: not any(node.left() or node.rows() for node in self.nodes.values()), "nothing is left")


class Jobs(SlurmCase):
    def tearDown(self):
        self.cluster.call("scancel", "--user=nobody")
        until(lambda: not self.cluster.states(), "the jobs have ended")
        self.nothing_left()

    def test_the_release_is_the_one_that_was_asked_for(self):
        self.assertIn(f"slurm-wlm {RELEASE or ''}", self.srun("--version").stdout)

    def test_what_is_asked_for_is_the_total(self):
        done = self.srun("--gpu-mem=4GiB", WORKLOAD, "total")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(4 * GIB)), done.stderr + self.cluster.logs())

    def test_six_of_seven_shares_find_room_and_the_seventh_waits(self):
        jobs = [self.sbatch(f"{WORKLOAD} hold 50GiB", "--gpu-mem=60GiB") for _ in range(7)]
        until(lambda: sum(state[0] == "RUNNING" for state in self.cluster.states().values()) == 6, "six run")
        until(lambda: sum(len([device for device in node.truth() if device["used_bytes"] > 100 * GIB]) for node in self.nodes.values()) == 3,
              "two hold their memory on each card")
        waiting = [job for job, state in self.cluster.states().items() if state[0] == "PENDING"]
        self.assertEqual(len(waiting), 1)
        for node in self.nodes.values():
            rows = node.rows().values()
            self.assertEqual(sorted(row["gpu"] for row in rows), sorted(2 * list(range(NODES[node.name]))))
            self.assertEqual({row["limit_bytes"] for row in rows}, {60 * GIB})
            self.assertEqual({row["user"] for row in rows}, {"nobody"})
            self.assertEqual({row["tenant"] for row in rows}, {"nobody"})
        self.cluster.call("scancel", next(job for job in jobs if job not in waiting))
        until(lambda: self.cluster.states()[waiting[0]][0] == "RUNNING", "the seventh runs when one has ended")

    def test_what_a_job_takes_beyond_its_limit_is_denied_to_it_alone(self):
        neighbour = self.sbatch(f"{WORKLOAD} hold 3GiB", "--gpu-mem=4GiB", "-w", "n1")
        until(lambda: self.nodes["n1"].used() > 3 * GIB, "the neighbour holds")
        done = self.srun("-w", "n1", "-J", "probe", "--gpu-mem=2GiB", WORKLOAD, "probe", "64")
        obtained = [int(line.split()[1]) for line in done.stdout.splitlines()]
        self.assertGreaterEqual(len(obtained), 28, done.stdout + done.stderr)
        self.assertLessEqual(max(obtained), 2 * GIB, done.stdout)
        told = next(job for job in self.cluster.call("scontrol", "-o", "show", "job").stdout.splitlines() if "JobName=probe " in job)
        self.assertRegex(told, r"AdminComment=ration n1: peak (2.00 GiB|1.\d+ GiB) of 2.00 GiB, \d+ denials")
        self.assertEqual(self.cluster.states()[neighbour][0], "RUNNING")
        self.assertEqual(self.nodes["n1"].rows()[f"slurm-{neighbour}"]["denials"], 0)

    def test_all_steps_of_a_job_share_one_book(self):
        job = self.sbatch(f"srun {WORKLOAD} hold 3GiB", "--gpu-mem=4GiB")
        node = until(lambda: next((node for node in self.nodes.values() if f"slurm-{job}" in node.rows()), None), "its book")
        until(lambda: node.rows()[f"slurm-{job}"]["used_bytes"] > 3 * GIB, "one step holds")
        done = self.cluster.call("srun", f"--jobid={job}", "--overlap", "-n1", WORKLOAD, "hold", "2GiB", user=NOBODY, group=NOBODY, extra_groups=[])
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(node.rows()), 1)

    def test_no_variable_and_no_launcher_leads_away(self):
        for words in (["env", "RATION_BOOK=/tmp/other", "LD_PRELOAD=", "SLURM_SHARDS_ON_NODE=99999", WORKLOAD, "total"],
                      ["env", "-u", "LD_PRELOAD", WORKLOAD, "total"],
                      ["env", "-i", *self.simulation(), WORKLOAD, "total"],
                      [shutil.which("busybox") or "sh", "sh", "-c", f"{WORKLOAD} total"]):
            done = self.srun("-w", "n1", "--gpu-mem=4GiB", *words, env={"RATION_BOOK": "/tmp/mine", "LD_PRELOAD": ""})
            self.assertEqual((done.returncode, done.stdout.strip()), (0, str(4 * GIB)), f"{words} {done.stderr}")

    def test_a_task_epilog_is_held_too(self):
        """The step's keeper runs it, not a task."""
        script, told = self.folder / "epilog.sh", self.folder / "epilog.out"
        script.write_text("\n".join(["#!/bin/sh", *(f"export '{line}'" for line in self.simulation()), f"exec {WORKLOAD} total >> {told} 2>&1", ""]))
        script.chmod(0o755)
        told.touch()
        told.chmod(0o666)
        done = self.srun("-w", "n1", "-n2", "--gpu-mem=4GiB", f"--task-epilog={script}", "true")
        self.assertEqual((done.returncode, told.read_text().split()), (0, 2 * [str(4 * GIB)]), done.stderr)
        self.nodes["n1"].end()
        try:
            self.assertNotEqual(self.srun("-w", "n1", "--gpu-mem=4GiB", f"--task-epilog={script}", "true").returncode, 0)
        finally:
            self.nodes["n1"].begin()
        self.assertEqual(len(told.read_text().split()), 2, "no limit, and it ran")

    def test_a_job_cannot_get_more_than_it_was_granted(self):
        job = self.sbatch("sleep infinity", "--gpu-mem=4GiB", "-w", "n1")
        until(lambda: self.cluster.states()[job][0] == "RUNNING", "it runs")
        step = ["srun", f"--jobid={job}", "--overlap", "-n1"]
        for options in (["--gpu-mem=8GiB"], ["--gres=shard:8192"]):
            done = self.run_as(*step, *options, WORKLOAD, "total")
            self.assertRegex(done.stderr, "more than the job's|nvalid generic resource")  # 22.05, 24.11
            self.assertEqual(done.stdout, "")
        for options in (["--gpu-mem=1GiB"], ["--gres=none"], ["--export=NONE"]):
            done = self.run_as(*step, *options, WORKLOAD, "total")
            self.assertEqual(done.stdout.strip(), str(4 * GIB), f"{options} {done.stderr}")
        for change in ("gres=shard:8192", "tresPerNode=gres:shard:8192", "adminComment=none"):
            self.assertNotEqual(self.run_as("scontrol", "update", f"jobid={job}", change).returncode, 0, change)
        for method, path, body in (("PATCH", f"workloads/slurm-{job}", {"limit": "100GiB"}), ("PUT", "claims/mine", {"limit": "100GiB"}), ("DELETE", "claims/mine", {})):
            asked = ["curl", "-sS", "--unix-socket", "/run/node/ration/ration.sock", "-X", method, f"http://node/api/v1/{path}", "-d", json.dumps(body)]
            done = self.run_as(*step, *asked)
            self.assertIn("E1502", done.stdout, done.stderr)
        self.assertEqual(self.nodes["n1"].rows()[f"slurm-{job}"]["limit_bytes"], 4 * GIB)

    def test_nobody_elses_memory_counts_as_a_jobs(self):
        job = self.sbatch("sleep infinity", "--gpu-mem=1GiB", "-w", "n1")
        node = self.nodes["n1"]
        until(lambda: f"slurm-{job}" in node.rows(), "its book")
        folder = self.folder / "somebody"
        folder.mkdir()
        os.chown(folder, 1, 1)
        words = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups", BIN / "ration", "run", "--socket", "/run/node/ration/ration.sock", "--limit", "9GiB",
                 "--label", "engine=slurm", "--label", f"slurm_job={job}", "--", "timeout", "2", WORKLOAD, "hold", "5GiB"]
        environment = dict(node.environment, RATION_RUNTIME_DIR=str(folder / "ration"), RATION_STATE_DIR=str(folder / "state"), HOME=str(folder))
        done = subprocess.run(node.inside(*words), env=environment, capture_output=True, text=True)
        self.assertIn("holding", done.stdout, done.stderr)
        by_user = json.loads(node.ration("report", "--by", "user", "-o", "json").stdout)["data"]["rows"]
        self.assertGreater(next(row["peak_bytes"] for row in by_user if row["name"] == "daemon"), 5 * GIB)
        told = json.loads(node.ration("report", "--slurm", job, "-o", "json").stdout)["data"]
        self.assertLess(told["peak_bytes"], GIB, told)

    def test_each_node_of_a_job_holds_and_accounts_its_part(self):
        script = f"srun sh -c 'test $({WORKLOAD} total) = {2 * GIB}' && srun -w n2 -N1 -n1 timeout 2 {WORKLOAD} hold 1GiB"
        done = self.run_as("sbatch", "--parsable", "--wait", "-o", "/dev/null", "-N2", "--gpu-mem=2GiB", "--wrap", script)
        self.assertEqual(done.returncode, 124, done.stderr)
        job = done.stdout.strip()
        peaks = {name: json.loads(node.ration("report", "--slurm", job, "-o", "json").stdout)["data"]["peak_bytes"] for name, node in self.nodes.items()}
        self.assertLess(peaks["n1"], GIB)
        self.assertGreater(peaks["n2"], GIB)
        comment = self.show(job)
        self.assertRegex(comment, r"ration n1: peak [0-9.]+ (MiB|B) of 2.00 GiB")
        self.assertRegex(comment, r"ration n2: peak 1.06 GiB of 2.00 GiB")
        for _ in range(3):  # both nodes end at the same moment
            done = self.srun("-N2", "-n2", "--gpu-mem=1GiB", "sh", "-c", "echo $SLURM_JOB_ID")
            comment = self.show(done.stdout.split()[0])
            self.assertRegex(comment, "AdminComment=.*ration n1: peak .*ration n2: peak|AdminComment=.*ration n2: peak .*ration n1: peak")

    def simulation(self):
        """What a program with an empty environment needs to find the simulated cards: nothing that ration needs."""
        told = self.srun("-w", "n1", "--gpu-mem=1GiB", "env").stdout.splitlines()
        return [line for line in told if line.startswith(("RATION_SIM", "RATION_DRIVER_PATH", "LD_LIBRARY_PATH"))]

    def test_a_task_can_neither_unmount_its_guard_nor_write_what_it_was_granted(self):
        script = f"umount /etc/ld.so.preload /.ration/book 2>/dev/null; echo > /etc/ld.so.preload; rm -f /.ration/book; {WORKLOAD} total"
        done = self.srun("--gpu-mem=4GiB", "sh", "-c", script)
        self.assertEqual(done.stdout.strip(), str(4 * GIB), done.stderr)

    def test_who_asked_for_no_gpu_has_none(self):
        if not self.cluster.devices:
            self.skipTest("no control group of devices here")
        look = "cat /dev/nvidia0; cat /dev/nvidia1; true"
        told = self.srun("-w", "n1", "sh", "-c", look).stderr
        self.assertEqual(told.count("Operation not permitted"), 2, told)
        told = self.srun("-w", "n1", "--gpu-mem=1GiB", "sh", "-c", look).stderr
        self.assertEqual((told.count("Operation not permitted"), told.count("No such device")), (1, 1), told)

    def test_what_cannot_be_is_refused_when_it_is_asked_for(self):
        for options, text in ((["--gpu-mem=4X"], "not a size"), (["--gpu-mem=4"], "not a size"), (["--gpu-mem=0GiB"], "not a size"),
                              (["--gpu-mem=-1GiB"], "not a size"), (["--gpu-mem=99999999999999999999G"], "not a size"),
                              (["--gpu-mem=200GiB"], "more than one GPU"), (["--gpu-mem=4GiB", "--gres=gpu:1"], "exclude one another"),
                              (["--gpu-mem=4GiB", "--gpus=1"], "exclude one another"), (["--gres=shard:4G"], "counted in MiB"),
                              (["--gres=shard"], "without an amount"), (["--gres=gpu:1,shard:100"], "nvalid generic resource"),
                              (["--gpu-mem-guarantee=1GiB"], "Add --gpu-mem"), (["--gpu-mem=1GiB", "--gpu-mem-guarantee=2GiB"], "more than --gpu-mem")):
            for command in (["srun", *options, "true"], ["sbatch", *options, "--wrap", "true"], ["salloc", *options, "true"]):
                done = self.run_as(*command)
                self.assertNotEqual(done.returncode, 0, command)
                self.assertIn(text, done.stderr, command)
        self.assertEqual([state for state in self.cluster.states().values() if state[0] != "COMPLETING"], [])  # of jobs before it

    def test_a_guarantee_is_kept_for_the_job(self):
        job = self.sbatch(f"{WORKLOAD} hold 1GiB", "--gpu-mem=4GiB", "--gpu-mem-guarantee=2GiB")
        row = until(lambda: next((node.rows()[f"slurm-{job}"] for node in self.nodes.values() if f"slurm-{job}" in node.rows()), None), "its book")
        self.assertEqual((row["limit_bytes"], row["guarantee_bytes"]), (4 * GIB, 2 * GIB))

    def test_without_the_daemon_a_job_fails_with_one_line(self):
        node = self.nodes["n2"]
        node.end()
        try:
            done = self.srun("-w", "n2", "--gpu-mem=1GiB", WORKLOAD, "total")
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stdout, "")
            lines = [line for line in done.stderr.splitlines() if "under its limit" in line]
            self.assertEqual(len(lines), 1, done.stderr)
            self.assertIn("E1501", lines[0])
            self.assertEqual(self.srun("-w", "n2", "echo", "no share").stdout.strip(), "no share")
        finally:
            node.begin()
        self.assertEqual(self.srun("-w", "n2", "--gpu-mem=1GiB", WORKLOAD, "total").stdout.strip(), str(GIB))

    def test_a_daemon_killed_under_a_job_finds_it_again(self):
        job = self.sbatch(f"{WORKLOAD} hold 1GiB", "--gpu-mem=4GiB", "-w", "n2")
        node = self.nodes["n2"]
        until(lambda: node.rows().get(f"slurm-{job}", {}).get("used_bytes", 0) > GIB, "it holds")
        node.end(signal.SIGKILL)
        done = self.run_as("srun", f"--jobid={job}", "--overlap", WORKLOAD, "total")
        self.assertEqual(done.stdout.strip(), str(4 * GIB), done.stderr)
        node.begin()
        until(lambda: node.rows().get(f"slurm-{job}", {}).get("limit_bytes") == 4 * GIB, "it is known again")

    def test_a_killed_keeper_leaves_nothing(self):
        job = self.sbatch(f"{WORKLOAD} hold 1GiB", "--gpu-mem=4GiB", "-w", "n2")
        until(lambda: self.nodes["n2"].rows().get(f"slurm-{job}", {}).get("used_bytes", 0) > GIB, "it holds")
        processes = [line.split(None, 2) for line in subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True).stdout.splitlines()]
        keepers = [pid for pid, _, words in processes if words.startswith(f"slurmstepd: [{job}.")]
        orphans = [pid for pid, parent, _ in processes if parent in keepers]
        orphans += [pid for pid, parent, _ in processes if parent in orphans]
        self.assertEqual(len(keepers), 2)
        for pid in keepers:
            os.kill(int(pid), signal.SIGKILL)
        # Nobody is left who would end them; what they hold stays in the book.
        self.assertEqual(self.nodes["n2"].rows()[f"slurm-{job}"]["limit_bytes"], 4 * GIB)
        for pid in orphans:
            os.kill(int(pid), signal.SIGKILL)
        self.cluster.call("scancel", job)

    def test_an_array_leaves_nothing(self):
        done = self.run_as("sbatch", "--parsable", "-o", "/dev/null", f"--array=1-{MANY}", "--gpu-mem=2GiB", "--wrap", f"{WORKLOAD} total")
        self.assertEqual(done.returncode, 0, done.stderr)
        waiting = lambda: self.cluster.call("squeue", "-h", "-r").stdout.count("\n")  # noqa: E731
        while left := waiting():
            until(lambda: waiting() < left, "another has ended")
        told = self.cluster.call("scontrol", "show", "job", done.stdout.strip()).stdout
        self.assertEqual(told.count("JobState=COMPLETED"), MANY, self.cluster.logs())

    def test_peak_and_denials_are_in_the_jobs_comment(self):
        job = self.sbatch(f"timeout 2 {WORKLOAD} hold 1GiB; {WORKLOAD} hold 9GiB; true", "--gpu-mem=4GiB", "-w", "n2")
        told = until(lambda: (text := self.show(job)) and "AdminComment=" in text and text, "its comment")
        self.assertRegex(told, r"AdminComment=ration n2: peak [0-9.]+ GiB of 4.00 GiB, \d+ denials?")


class Demo(unittest.TestCase):
    """`ration demo --scenario slurm`, which needs nothing of what the other tests started."""

    def setUp(self):
        if lacking := missing(PROGRAMS):
            self.skipTest(f"{', '.join(lacking)} not installed: ./dev test slurm")

    def start(self, *options, **more):
        return subprocess.Popen([BIN / "ration", "demo", "--scenario", "slurm", *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, **more)

    def traces(self):
        """Processes, mounts and files by which it could be seen."""
        processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout.splitlines()
        return ([line for line in processes if re.search("munged|slurm|rationd|ration-workload|sleep infinity", line) and "slurm_test" not in line],
                [line for line in pathlib.Path("/proc/mounts").read_text().splitlines() if "ration" in line],
                [sorted(os.listdir(place)) for place in ("/", "/run", "/sys/fs/cgroup")])

    def test_it_plays_what_it_says_and_leaves_nothing(self):
        shutil.rmtree("/.ration", ignore_errors=True)
        before = self.traces()
        demo = self.start("--speed", "100")
        told, _ = demo.communicate(timeout=300)
        self.assertEqual(demo.returncode, 0, told)
        steps = [r"n1\$ ration snippet slurm --node n1\n(.*\n)*NodeName=n1 Gres=gpu:h200:2,shard:288768\n", r"\$ sbatch .*--gpu-mem=60GiB .*\n7\n",
                 r"\$ squeue\n.*\n +7 .* PD .*\(Resources\)\n( +[1-6] .* R .* n[12]\n){6}", r"n1\$ ration ps\n(.*\n)*nobody/slurm-4 .* 60.0 GiB ", r"n2\$ ration ps\n(.*\n)*nobody/slurm-6 .* 60.0 GiB ",
                 r"\$ srun --jobid=1 .* hold 20GiB\n.*denied 20.0 GiB", r"\n +1 +gpu +wrap +nobody +R ", r"because +slurm-1 held ", r"\$ scancel 1\n\$ squeue\n.*\n( +[2-7] .* R .* n[12]\n){6}",
                 r"n1\$ ration report --slurm 1\n.*\n1 .* 51.0 GiB +1\n"]
        self.assertRegex(told, r"[\s\S]*".join(steps))
        self.assertEqual(self.traces(), before)

    def test_it_plays_where_control_groups_are_of_version_2(self):
        script = f"umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup && exec {BIN}/ration demo --scenario slurm --speed 100"
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_it_stays_when_it_is_told_to_and_ends_with_its_starter(self):
        shutil.rmtree("/.ration", ignore_errors=True)
        before = self.traces()
        for how, code in ((signal.SIGINT, 0), (signal.SIGKILL, -signal.SIGKILL)):
            demo = self.start("--speed", "100", "--keep", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))  # as a shell starts it with &
            self.addCleanup(demo.kill)
            told = ""
            while not re.search(r"\n  nsenter .*\n$", told):
                line = demo.stdout.readline()
                self.assertTrue(line, told)
                told += line
            shell = shlex.split(told.splitlines()[-1])
            done = subprocess.run(shell, input="squeue -h -t R | wc -l; ration ps | grep -c nobody/\n", capture_output=True, text=True, timeout=60)
            self.assertEqual(done.stdout.split(), ["6", "4"], done.stderr)
            demo.send_signal(how)
            demo.communicate(timeout=60)
            self.assertEqual(demo.returncode, code)
            until(lambda: self.traces() == before, lambda: f"{self.traces()} as before: {before}")

    def test_it_says_what_is_missing(self):
        demo = self.start(user=NOBODY)
        told, _ = demo.communicate(timeout=60)
        self.assertEqual((demo.returncode, "sudo ration demo --scenario slurm" in told), (1, True), told)
        script = f"mount -t tmpfs none /usr/sbin && exec {BIN}/ration demo --scenario slurm"  # where Debian has its daemons
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("munged, slurmctld, slurmd missing", done.stderr)
        self.assertIn("apt-get install slurm-wlm munge", done.stderr)


class Accounts(SlurmCase):
    accounting = True

    def test_sacct_and_ration_agree(self):
        job = self.sbatch(f"timeout 6 {WORKLOAD} hold 3GiB; true", "--gpu-mem=4GiB", "-w", "n2")
        told = until(lambda: [line for line in self.cluster.call("sacct", "-X", "-n", "-P", "-j", job, "-o", "state,elapsedraw,alloctres,admincomment").stdout.splitlines()
                              if line.startswith("COMPLETED")], "it is in the accounts")[0]
        _, elapsed, resources, comment = told.split("|")
        self.assertIn("gres/shard=4096", resources)
        granted = 4096 * int(elapsed)
        told_here = lambda: json.loads(self.nodes["n2"].ration("report", "--slurm", job, "-o", "json").stdout)["data"]  # noqa: E731
        agree = lambda row: abs(float(row["limit_byte_seconds"]) / MIB - granted) <= 4096 * 1.5 and row  # noqa: E731
        row = until(lambda: agree(told_here()), lambda: f"what Slurm has, {told}, ration has, too: {told_here()}")
        self.assertGreaterEqual(row["peak_bytes"], 3 * GIB)
        self.assertIn("ration n2: peak", comment)
        self.nothing_left()


if __name__ == "__main__":
    if os.getuid() != 0 or subprocess.run(["unshare", "-m", "-u", "true"], capture_output=True).returncode != 0:
        print("skipped: this test needs root and mounts of its own")
    elif RELEASE and not PLUGIN.exists():
        print(f"skipped: Slurm {RELEASE} and the package are not in {UNPACKED}: ./dev package && ./dev test slurm")
    elif "RATION_TEST_IN_OWN_SYSTEM" not in os.environ:
        # Control groups go by the names of nodes: one cluster of this test at a time. Held open by what takes this process's place.
        lock = os.open("/run/ration-slurm-test.lock", os.O_RDWR | os.O_CREAT, 0o600)
        os.set_inheritable(lock, True)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.environ["RATION_TEST_IN_OWN_SYSTEM"] = "1"
        words = own_system(["python3", "-W", "ignore", os.path.abspath(__file__), *sys.argv[1:]], UNPACKED / "root" if RELEASE else None, [SOURCE])
        os.execvp(words[0], words)
    else:
        slurm_cluster.raise_loopback()
        unittest.main(verbosity=2)
