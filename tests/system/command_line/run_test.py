#!/usr/bin/env python3
"""What `ration run` promises around its program: which GPUs it gets, what is kept for it, how it ends, and that nobody is asked
who cannot answer."""
import json
import os
import pathlib
import pty
import re
import shlex
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from node_client import BIN, SOURCE, environment_in, own_folder, until  # noqa: E402

GIB = 1 << 30
NODE, PAIR = "--sim=T4:16GiB:context=64MiB", "--sim=T4:16GiB:context=64MiB*2"


def lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = own_folder(self)
        self.environment = environment_in(self.folder)
        (self.folder / "ration.toml").write_text("")
        self.environment.pop("XDG_CONFIG_HOME", None)

    def ration(self, *arguments, **options):
        return subprocess.run([BIN / "ration", *map(str, arguments)], env=dict(self.environment, **options.pop("env", {})), capture_output=True,
                              text=True, timeout=120, **options)

    def started(self, *arguments, **options):
        process = subprocess.Popen([BIN / "ration", "run", *map(str, arguments)], env=dict(self.environment, **options.pop("env", {})),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(lambda: (process.terminate(), process.wait(), process.stdout.close(), process.stderr.close()))
        return process

    def holding(self, name, size, *options, node=NODE):
        process = self.started(node, "--name", name, *options, "--", BIN / "ration-workload", "hold", size)
        line = process.stdout.readline()
        self.assertIn("holding", line, process.stderr.read() if not line else "")
        return process


class Ending(Case):
    # A program whose child is in a session of its own, as an engine's core is, and says who they are.
    FAMILY = "setsid sh -c '{child}' & echo $! $$; wait"

    def family(self, child="sleep 1000", program=""):
        process = self.started(NODE, "--limit", "1GiB", "--", "sh", "-c", program + self.FAMILY.format(child=child))
        pids = [int(word) for word in process.stdout.readline().split()]
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in pids if lives(pid)])
        self.assertTrue(all(map(lives, pids)))
        return process, pids

    # What the kernel answers when a process ends between the opening and the reading of its file: here for process 1, always.
    VANISHES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
ssize_t read(int file, void* into, size_t size) {
  char link[64], path[64] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  if (readlink(link, path, sizeof path - 1) > 0 && strcmp(path, "/proc/1/stat") == 0) return errno = ESRCH, -1;
  return ((ssize_t (*)(int, void*, size_t))dlsym(RTLD_NEXT, "read"))(file, into, size);
}
"""

    def test_a_signal_reaches_the_program_also_while_other_processes_end(self):
        (self.folder / "vanishes.c").write_text(self.VANISHES)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", self.folder / "vanishes.so", self.folder / "vanishes.c", "-ldl"], check=True)
        process = self.started(NODE, "--limit", "1GiB", "--", "sh", "-c", "trap 'echo told; exit 7' TERM; echo ready; while :; do sleep 0.05; done",
                               env={"LD_PRELOAD": str(self.folder / "vanishes.so")})
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual((process.stdout.readline(), process.wait(60)), ("told\n", 7), process.stderr.read())

    def test_a_request_to_end_reaches_every_process_of_the_workload(self):
        for asked in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(asked.name):
                process, pids = self.family()
                process.send_signal(asked)
                self.assertEqual(process.wait(60), 128 + asked)
                self.assertEqual([pid for pid in pids if lives(pid)], [])

    def test_what_does_not_end_when_asked_is_killed_at_the_second_request(self):
        process, pids = self.family('trap "" TERM; echo deaf >&2; while :; do sleep 1; done', program='trap "" TERM; ')
        self.assertEqual(process.stderr.readline(), "deaf\n")
        process.send_signal(signal.SIGTERM)
        until(lambda: not int(self.pending(process.pid)), "the first one is taken")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 128 + signal.SIGKILL)
        self.assertEqual([pid for pid in pids if lives(pid)], [])

    def pending(self, pid):
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(re.search(r"^ShdPnd:\s*(\w+)", text, re.M).group(1), 16) >> (signal.SIGTERM - 1) & 1

    def test_what_a_program_leaves_behind_lives_where_nobody_asked_to_end(self):
        process = self.started(NODE, "--limit", "1GiB", "--", "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!")
        pid = int(process.stdout.readline())
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        self.assertEqual(process.wait(60), 0)
        self.assertTrue(lives(pid))

    def test_a_hang_up_that_is_ignored_stays_ignored(self):
        process = self.started(NODE, "--limit", "1GiB", "--", "sh", "-c", "echo ready; read line; echo $line", stdin=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGHUP)
        process.stdin.write("still here\n")
        process.stdin.close()
        self.assertEqual(process.stdout.readline(), "still here\n")
        self.assertEqual(process.wait(60), 0)


class SeveralGpus(Case):
    def granted(self, *options, **more):
        done = self.ration("run", *options, "--dry-run", "-o", "json", "--", "true", **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [account["gpu"] for account in json.loads(done.stdout)["data"]["accounts"]]

    def fits(self, *options):
        done = self.ration("fits", *options)
        return done.returncode, done.stdout.strip() or done.stderr

    def test_all_and_auto_are_understood_by_run_and_fits_alike(self):
        self.holding("first", "3GiB", "--gpu", "0", node=PAIR)
        for typed, gpus in (("all", [0, 1]), ("0,1", [0, 1]), ("auto", [1]), ("0", [0])):
            with self.subTest(typed):
                self.assertEqual(self.granted(PAIR, "--gpu", typed, "--limit", "1GiB"), gpus)
                self.assertEqual(self.fits(PAIR, "--gpu", typed, "1GiB"), (0, ",".join(map(str, gpus))))

    def test_what_is_left_out_means_the_same_to_run_and_fits(self):
        self.holding("first", "3GiB", "--gpu", "0", node=PAIR)
        # Several cards were typed: all of them. A scheduler's choice: that.
        for node, environment, gpus in ((PAIR, {}, [0, 1]), (PAIR, {"CUDA_VISIBLE_DEVICES": "0"}, [0])):
            with self.subTest(node=node, environment=environment):
                self.assertEqual(self.granted(node, "--limit", "1GiB", env=environment), gpus)
                done = self.ration("fits", node, "1GiB", env=environment)
                self.assertEqual((done.returncode, done.stdout.strip()), (0, ",".join(map(str, gpus))), done.stderr)

    def test_gpus_that_are_hidden_are_not_used(self):
        """CUDA shows the GPUs up to the first name that is none: frameworks hide all of them by '' or -1."""
        for hidden in ("", "-1", "7", "-1,0", "NoDevFiles", "0,0", "GPU-ffff"):
            for words in (("run", PAIR, "--limit", "1GiB", "--", "echo", "started"), ("fits", PAIR, "1GiB")):
                with self.subTest(words=words[:3], hidden=hidden):
                    done = self.ration(*words, env={"CUDA_VISIBLE_DEVICES": hidden})
                    self.assertEqual((done.returncode, done.stdout, done.stderr.split()[0]), (3, "", "E1407"), done.stderr)
                    self.assertIn(f"CUDA_VISIBLE_DEVICES='{hidden}' leaves no GPU visible", done.stderr)
        for visible, gpus in (("1,-1", [1]), ("1, 7, 0", [1]), ("1,0", [0, 1])):
            with self.subTest(visible=visible):
                self.assertEqual(sorted(self.granted(PAIR, "--limit", "1GiB", env={"CUDA_VISIBLE_DEVICES": visible})), gpus)
        self.assertEqual(self.granted(PAIR, "--gpu", "auto", "--limit", "1GiB", env={"CUDA_VISIBLE_DEVICES": ""}), [0], "what is typed goes first")

    def test_where_all_are_needed_the_fullest_is_named(self):
        self.holding("first", "12GiB", "--gpu", "0", node=PAIR)
        code, said = self.fits(PAIR, "--gpu", "all", "8GiB")
        self.assertEqual(code, 4)
        self.assertIn("does not fit now on each of GPU 0,1: the fullest is GPU 0", said)
        self.assertEqual(self.fits(PAIR, "--gpu", "auto", "8GiB"), (0, "1"))


class Guarantee(Case):
    def test_one_that_others_hold_is_refused_before_anything_starts(self):
        self.holding("hog", "14GiB")
        done = self.ration("run", NODE, "--limit", "4GiB", "--guarantee", "3GiB", "--", "echo", "started")
        self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
        self.assertRegex(done.stderr, r"E1303 ration: 3\.00 GiB cannot be kept for the workload now: GPU 0 has 1\.\d+ GiB available of 16\.0 GiB\. Held by hog 14\.1 GiB\.")
        most = re.search(r"--guarantee (\w+), at most", done.stderr).group(1)
        done = self.ration("run", NODE, "--limit", "4GiB", "--guarantee", most, "--", "echo", "started")
        self.assertEqual((done.returncode, done.stdout), (0, "started\n"), done.stderr)


class Asking(Case):
    """A question is for a person who sees it: every stream is the terminal, or nobody is asked."""

    def on_a_terminal(self, *words, output=True):
        """Exit code and what was said; a pipe in place of standard output where `output` is false. Nothing is ever typed."""
        leader, follower = pty.openpty()
        collected, end = os.pipe()
        process = subprocess.Popen([BIN / "ration", *map(str, words)], env=self.environment, stdin=follower, stdout=follower if output else end,
                                   stderr=follower)
        os.close(end)
        os.close(follower)
        self.addCleanup(os.close, leader)
        self.addCleanup(os.close, collected)
        self.addCleanup(lambda: process.poll() is None and (process.kill(), process.wait()))
        return process, leader

    def asking(self):
        """Every command that asks."""
        return (("set", "held", "--limit", "512MiB", NODE), ("stop", "held", NODE), ("split", "0", "--off", NODE))

    def test_who_collects_the_output_is_not_asked(self):
        self.holding("held", "1GiB")
        for words in self.asking()[:2]:
            with self.subTest(words[0]):
                process, leader = self.on_a_terminal(*words, output=False)
                self.assertEqual(process.wait(60), 4)
                self.assertIn("E1205", os.read(leader, 65536).decode())

    def test_a_person_is(self):
        self.holding("held", "1GiB")
        for words in self.asking()[:2]:
            with self.subTest(words[0]):
                process, leader = self.on_a_terminal(*words)
                said = ""
                while "[y/N]" not in said:
                    said += os.read(leader, 4096).decode()
                os.write(leader, b"n\n")
                self.assertEqual(process.wait(60), 4)


class Typed(Case):
    def test_sizes_as_others_write_them(self):
        for text, limit in (("100%", 16 * GIB), ("4Gi", 4 * GIB), ("4096Mi", 4 * GIB), ("0.5Ti", None)):
            with self.subTest(text):
                done = self.ration("run", NODE, "--limit", text, "--dry-run", "-o", "json", "--", "true")
                if limit is None:
                    self.assertIn("E1104", done.stderr)
                else:
                    self.assertEqual(json.loads(done.stdout)["data"]["accounts"][0]["limit_bytes"], limit, done.stderr)

    def test_what_set_suggests_names_a_workload(self):
        done = self.ration("set")
        suggested = shlex.split(done.stderr.splitlines()[1])
        self.assertEqual(suggested[:2], ["ration", "set"])
        self.assertFalse(suggested[2].startswith("-"), suggested)

    def test_the_fix_of_a_denial_starts_the_same_program(self):
        said = self.folder / "said"
        # Quotes, blanks, signs of a shell: what is pasted starts exactly this.
        script = f"""printf '%s|' "$@" > {said}; exec {BIN}/ration-workload hold 2GiB"""
        words = ["bash", "-c", script, "it's", "a  b", "$(reboot)", "semi;colon"]
        done = self.ration("run", NODE, "--name", "quoted", "--limit", "1GiB", "--", *words)
        self.assertNotEqual(done.returncode, 0)
        expected = said.read_text()
        said.unlink()
        fix = re.search(r"^fix      (.*)$", self.ration("why", NODE).stdout, re.M).group(1)
        self.assertEqual(shlex.split(fix)[shlex.split(fix).index("--") + 1:], words, fix)
        process = subprocess.Popen(["sh", "-c", fix.replace("ration ", f"{BIN}/ration ", 1)], env=self.environment, stdout=subprocess.PIPE, text=True,
                                   start_new_session=True)
        self.addCleanup(lambda: (os.killpg(process.pid, signal.SIGTERM), process.communicate()))
        self.assertIn("holding", process.stdout.readline())
        self.assertEqual(said.read_text(), expected)


class Service(Case):
    def test_a_reload_that_is_rejected_fails_and_a_mistake_starts_nothing_again(self):
        unit = self.ration("service", "print").stdout
        self.assertIn("\nRestartPreventExitStatus=2\n", unit)
        reload = shlex.split(re.search(r"^ExecReload=(.*)$", unit, re.M).group(1))
        configuration = self.folder / "mistake.toml"
        configuration.write_text("")
        environment = {"RATION_CONFIG": str(configuration)}
        words = [*shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.M).group(1)), NODE, "--state", self.folder / "state", "--listen", ""]
        daemon = subprocess.Popen(words, env={**self.environment, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (daemon.terminate(), daemon.communicate()))
        self.assertIn("ration", daemon.stdout.readline())
        again = lambda: subprocess.run(reload, env={**self.environment, **environment}, capture_output=True, text=True)  # noqa: E731
        self.assertEqual(again().returncode, 0)
        configuration.write_text("mistake = 1\n")
        self.assertNotEqual(again().returncode, 0)
        done = subprocess.run(words, env={**self.environment, **environment}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.split()[0]), (2, "E1601"))

    def of_the_machine(self):
        """The environment without folders of this test's own."""
        return {key: value for key, value in self.environment.items() if not key.startswith("RATION_")}

    @unittest.skipUnless(os.geteuid() == 0, "root installs the unit of the machine")
    def test_a_unit_of_the_package_is_used_as_it_is(self):
        """In a mount namespace, in which a package has installed its unit."""
        own, packaged = "/etc/systemd/system", "/usr/lib/systemd/system"
        script = f"""set -e
            for folder in /run {own} {packaged}; do mkdir -p $folder; mount -t tmpfs none $folder; done
            {BIN}/ration events 2>&1 || true
            touch {packaged}/rationd.service
            {BIN}/ration events 2>&1 || true
            {BIN}/ration service install
            {BIN}/ration service uninstall
            ls {own} {packaged}"""
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script], env=self.of_the_machine(), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split("\n")[-5:], [f"{own}:", "", f"{packaged}:", "rationd.service", ""], done.stdout)
        without, with_unit = done.stdout.split("\n")[1:4:2]
        self.assertEqual((without.split()[:2], with_unit.split()), (["ration", "serve"], ["systemctl", "start", "rationd"]))
        self.assertIn(f"the package has installed {packaged}/rationd.service", done.stdout)


class PackageScripts(Case):
    """The scripts that dpkg runs, with programs of this test's own in place of the system's."""

    def said(self, script, *words):
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        for name in ("systemctl", "systemd-sysusers", "systemd-tmpfiles", "getent", "groupadd", "find"):
            (programs / name).write_text("#!/bin/sh\n")
            (programs / name).chmod(0o755)
        (programs / "ration").write_text(f'#!/bin/sh\nexec {BIN}/ration "$@" {NODE}\n')
        (programs / "ration").chmod(0o755)
        done = subprocess.run(["sh", SOURCE / "packaging/debian" / script, *words], env=dict(self.environment, PATH=f"{programs}:{os.environ['PATH']}"), capture_output=True,
                              text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_the_first_installation_says_what_comes_next(self):
        said = self.said("postinst", "configure", "")
        self.assertIn("ration config init", said)
        self.assertIn("systemctl enable --now rationd", said)
        self.assertEqual(self.said("postinst", "configure", "0.9.0"), "")

    def test_a_removal_names_what_still_runs(self):
        self.assertEqual(self.said("prerm", "remove"), "")
        self.holding("trains", "1GiB", "--limit", "2GiB")
        self.assertEqual(self.said("prerm", "upgrade", "1.1.0"), "")
        (line,) = self.said("prerm", "remove").splitlines()
        self.assertIn("/trains", line)


class WithoutSystemd(Case):
    @unittest.skipIf(os.path.exists("/run/systemd/system"), "systemd runs here")
    def test_scope_and_service_say_so_with_their_numbers(self):
        for words, code, number in ((("run", NODE, "--scope", "--limit", "1GiB", "--", "true"), 125, "E1709"), (("service", "status"), 1, "E1427"),
                                    (("service", "start"), 1, "E1427")):
            with self.subTest(words=words):
                done = self.ration(*words)
                self.assertEqual((done.returncode, done.stdout, done.stderr.split()[0], len(done.stderr.splitlines())), (code, "", number, 2), done.stderr)

    @unittest.skipIf(os.path.exists("/run/systemd/system"), "systemd runs here")
    def test_a_service_that_cannot_start_leaves_no_unit(self):
        unit = pathlib.Path(self.folder, "systemd/user/rationd.service")
        environment = {"XDG_CONFIG_HOME": str(self.folder)}
        self.assertIn("E1427", self.ration("service", "install", "--user", "--now", env=environment).stderr)
        self.assertFalse(unit.exists())
        self.ration("service", "install", "--user", env=environment)
        self.assertIn("E1427", self.ration("service", "install", "--user", "--now", env=environment).stderr)
        self.assertTrue(unit.exists(), "somebody installed it before")


if __name__ == "__main__":
    unittest.main()
