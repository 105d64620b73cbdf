#!/usr/bin/env python3
"""No program starts without its guard and without a word: each kind is refused with a clear line, or started and held, or shown."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node_client import BIN, own_folder, until  # noqa: E402

BUILD = BIN.parent
NODE = "--sim=T4:16GiB:context=64MiB"
# Takes 512 MiB, and then what it may not have.
GREEDY = [str(BIN / "ration-workload"), "steps", "512MiB:1ms", "2GiB:1ms"]
HELD = "of 1.00 GiB"
LOADER = "/lib64/ld-linux-x86-64.so.2" if os.uname().machine == "x86_64" else "/lib/ld-linux-aarch64.so.1"


class NeverOpen(unittest.TestCase):
    def setUp(self):
        self.folder = own_folder(self)
        self.folder.chmod(0o755)
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_"))}
        self.environment = dict(own, RATION_RUNTIME_DIR=str(self.folder), RATION_SIM_DIR=str(self.folder), PATH=f"{BIN}:{own['PATH']}")

    def run_it(self, *words, options=(), ration=BIN / "ration"):
        return subprocess.run([ration, "run", NODE, "--limit", "1GiB", *options, "--", *map(str, words)], env=self.environment, capture_output=True, text=True)

    def file(self, name, content, mode=0o755):
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return path

    def static(self):
        source = self.file("launcher.c", "#include <unistd.h>\nint main(int count, char** words) { return count > 1 ? execvp(words[1], words + 1) : 0; }\n")
        subprocess.run(["cc", "-static", "-o", self.folder / "launcher", source], check=True)
        return self.folder / "launcher"

    def static_env(self):
        """As env(1), for variables and -i."""
        source = self.file("env.c", "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nint main(int count, char** words) {\n"
                           "  while (*++words && (**words == '-' || strchr(*words, '='))) **words == '-' ? clearenv() : putenv(*words);\n  return execvp(*words, words); }\n")
        (self.folder / "static").mkdir()
        subprocess.run(["cc", "-static", "-o", self.folder / "static/env", source], check=True)
        return self.folder / "static/env"

    def true_with(self, name, change):
        return self.file(name, bytes(change(bytearray(pathlib.Path("/bin/true").read_bytes()))))

    def changed(self, place, value):
        def change(content):
            content[place] = value
            return content
        return change

    def musl(self):
        return self.true_with("musl", lambda content: content.replace(LOADER.encode(), b"/lib/ld-musl.so.1".ljust(len(LOADER), b"\0")))

    def refused(self, words, reason, **how):
        done = self.run_it(*words, **how)
        self.assertEqual((done.returncode, done.stdout), (6, ""), done.stderr)
        self.assertIn("E1404", done.stderr)
        self.assertIn(reason, done.stderr)
        self.assertIn("--allow-ungoverned", done.stderr)

    def held(self, words):
        done = self.run_it(*words)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(HELD, done.stderr)

    def test_what_cannot_be_held_is_refused(self):
        marker = self.folder / "started"
        cases = {
            "musl": ([self.musl()], "musl"),
            "another processor": ([self.true_with("other", self.changed(18, 0xF3))], "another kind of processor"),
            "32 bits": ([self.true_with("narrow", self.changed(4, 1))], "another kind of processor"),
            "truncated": ([self.true_with("short", lambda content: content[:3000])], "cut off"),
            "a script of such an interpreter": ([self.file("script", f"#!{self.musl()}\n")], "musl"),
            "a script through env": ([self.file("through", f"#!/usr/bin/env -S {self.musl()} -x\n")], "musl"),
            "chroot": (["chroot", "/", "touch", marker], "sandbox"),
            "sudo": ([self.file("sudo", "#!/bin/sh\n")], "sudo ration run"),
            "docker": ([self.file("docker", "#!/bin/sh\n")], "container"),
            "a snap": ([self.link("spotify", self.file("snap", "#!/bin/sh\n"))], "sandbox"),
        }
        for name, (words, reason) in cases.items():
            with self.subTest(name):
                self.refused(words, reason)
        self.assertFalse(marker.exists(), "nothing of it ran")

    def test_a_launcher_that_takes_the_guard_out_has_it_put_back_by_the_guard_in_itself(self):
        for words in (["env", "-i"], ["env", "-uLD_PRELOAD"], ["env", "--unset=RATION_BOOK"], ["env", "A=b", "LD_PRELOAD="], ["env", "-vi"], ["env", "-iv"], ["env", "-vuLD_PRELOAD"],
                      ["env", "--uns=LD_PRELOAD"], ["env", "--ignore-e"], ["timeout", "50", "env", "-i"], ["timeout", "-s", "KILL", "--kill-after", "3", "50", "env", "-i"],
                      ["nice", "-n", "1", "nohup", "setsid", "-w", "env", "-"], ["stdbuf", "-oL", "env", "-i"], ["taskset", "-c", "0", "env", "-i"],
                      ["setpriv", "--no-new-privs", "--reset-env"], ["env", "-C", "/", "--", "A=b", "env", "-i"], ["env", "-S", f"-i {GREEDY[0]}"]):
            with self.subTest(words):
                self.held([*words, *(GREEDY[1:] if "-S" in words else GREEDY)])
        self.held([self.file("clean", f"#!/usr/bin/env -iS A=b sh\nexec {' '.join(GREEDY)}\n")])

    def test_a_launcher_that_takes_the_guard_out_and_has_none_in_itself_is_refused(self):
        static = self.static_env()
        marker = self.folder / "started"
        self.held([static, "A=b", *GREEDY])
        self.refused([static, "-i", "touch", marker], "env removes the guard")
        secure = self.folder / "secure/env"
        secure.parent.mkdir()
        shutil.copy(shutil.which("env"), secure)
        os.chown(secure, 65534, 65534)
        secure.chmod(0o4755)
        self.refused([secure, "-i", "touch", marker], "env removes the guard")
        self.assertFalse(marker.exists(), "nothing of it ran")
        done = self.run_it("env", "-i", "PATH=" + os.environ["PATH"], "touch", marker, options=["--allow-ungoverned"])
        self.assertIn("the limit is not enforced on env: env removes the guard", done.stderr)
        self.assertTrue(marker.exists())

    def test_launchers_that_have_a_program_started_elsewhere_are_refused_each_with_what_to_type(self):
        tools = self.folder / "tools"
        tools.mkdir()
        self.environment["PATH"] = f"{tools}:{self.environment['PATH']}"
        marker = self.folder / "started"
        for name, instead in {"ssh": "ssh HOST ration run", "mosh": "mosh HOST -- ration run", "srun": "srun … ration run", "sbatch": "in the script", "at": "ration run …' | at",
                              "batch": "ration run …' | batch", "kubectl": "kubectl exec POD -- ration run", "machinectl": "machinectl shell", "nsenter": "nsenter … ration run",
                              "systemd-run": "systemd-run … ration run", "su": "su USER -c 'ration run", "runuser": "runuser -u USER -- ration run", "doas": "doas ration run",
                              "pkexec": "pkexec ration run", "crun": "oci: ration help containers", "runc": "oci: ration help containers", "lxc": "lxc exec", "incus": "incus exec", "ctr": "containers",
                              "nerdctl": "nerdctl run", "distrobox": "distrobox enter", "toolbox": "toolbox run", "flatpak-spawn": "flatpak-spawn --host", "wsl": "wsl ration run",
                              "byobu": "inside of byobu", "apptainer": "apptainer --limit 4GiB -- exec", "podman": "podman --limit 4GiB -- run"}.items():
            launcher = tools / name
            launcher.write_text(f"#!/bin/sh\ntouch {marker}\n")
            launcher.chmod(0o755)
            for words in ([name, "x"], ["timeout", "9", name, "x"]):
                with self.subTest(words):
                    self.refused(words, instead)
        self.assertFalse(marker.exists(), "nothing was started")
        done = self.run_it("ssh", "x", options=["--allow-ungoverned"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the limit is not enforced on ssh", done.stderr)
        self.assertTrue(marker.exists())
        for words, refused in ((["ray", "job", "submit"], True), (["ray", "start"], False)):
            (tools / "ray").write_text("#!/bin/sh\n")
            (tools / "ray").chmod(0o755)
            self.assertEqual(self.run_it(*words).returncode, 6 if refused else 0, words)

    def test_tmux_is_refused_where_a_server_answers_and_else_started_and_held(self):
        tmux = shutil.which("tmux")
        if tmux is None:
            self.skipTest("tmux is not here")
        self.environment["TMUX_TMPDIR"] = str(self.folder)
        self.environment.pop("TMUX", None)
        told = self.folder / "told"
        self.addCleanup(subprocess.run, [tmux, "kill-server"], env=self.environment, stderr=subprocess.DEVNULL)
        subprocess.run([tmux, "new-session", "-d", "sleep", "600"], env=self.environment, check=True)
        self.refused(["tmux", "new-session", "-d", *GREEDY], "ration run … PROGRAM'")
        self.refused(["tmux", "-2", "-S", self.folder / f"tmux-{os.getuid()}/default", "new-session", "-d", *GREEDY], "a tmux server runs already")
        self.environment["TMUX"] = f"{self.folder}/tmux-{os.getuid()}/default,1,0"
        self.refused(["tmux", "split-window", *GREEDY], "a tmux server runs already")
        self.environment.pop("TMUX")
        done = self.run_it("tmux", "-L", "fresh", "new-session", "-d", f"{' '.join(GREEDY)} 2>{told}.fresh; echo >{told}.ended")
        self.addCleanup(subprocess.run, [tmux, "-L", "fresh", "kill-server"], env=self.environment, stderr=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        until(lambda: pathlib.Path(f"{told}.ended").exists(), "the program in the fresh server")
        self.assertIn(HELD, pathlib.Path(f"{told}.fresh").read_text())

    def test_a_screen_that_would_ask_another_is_refused(self):
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "screen").write_text("#!/bin/sh\n")
        (tools / "screen").chmod(0o755)
        self.environment["PATH"] = f"{tools}:{self.environment['PATH']}"
        self.environment.pop("STY", None)
        for words in (["-x"], ["-r", "a"], ["-S", "a", "-X", "screen", "prog"], ["-dR"]):
            self.refused(["screen", *words], "a screen that runs already")
        self.assertEqual(self.run_it("screen", "-dm", "-S", "new", "prog").returncode, 0)
        self.environment["STY"] = "1.a"
        self.refused(["screen", "prog"], "a screen that runs already")
        self.assertEqual(self.run_it("screen", "-m", "prog").returncode, 0)

    def link(self, name, target):
        path = self.folder / name
        path.symlink_to(target)
        return path

    def test_a_launcher_is_looked_through(self):
        for words in (["timeout", "-k", "9", "30"], ["nice", "-n", "1"], ["nice", "-5"], ["nohup"], ["setsid", "-w"], ["stdbuf", "-o0"], ["env", "-u", "A", "--chdir=/", "A=b"],
                      ["taskset", "-c", "0"], ["timeout", "--signal=TERM", "30", "env", "-S", "A=b"]):
            with self.subTest(words):
                self.held([*words, *GREEDY])
                self.refused([*words, self.musl()], "musl")

    def test_another_library_in_the_place_of_the_guard_stops_the_start(self):
        package = self.copied_package()
        libm = pathlib.Path(subprocess.run(["cc", "-print-file-name=libm.so.6"], capture_output=True, text=True, check=True).stdout.strip())
        for name, content in (("libm", libm), ("the simulated driver", BIN.parent / "sim/libcuda.so.1")):
            with self.subTest(name):
                guard = package / "shim/libcuda.so.1"
                guard.unlink()
                shutil.copy(content, guard)
                done = self.run_it("true", ration=package / "bin/ration")
                self.assertEqual(done.returncode, 125, done.stderr)
                self.assertRegex(done.stderr, "E1406 .*another library.*Nothing was started")
        guard.unlink()
        os.mkfifo(guard)
        done = self.run_it("true", ration=package / "bin/ration")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("E1406", done.stderr)

    def test_a_program_is_found_as_by_a_shell(self):
        first, second = self.folder / "first", self.folder / "second"
        for folder in (first, second):
            folder.mkdir()
        (first / "tool").mkdir()  # a folder of that name is passed over
        shutil.copy("/bin/true", second / "tool")
        self.environment["PATH"] = f"{first}:{second}"
        os.mkfifo(self.folder / "pipe", 0o755)
        shutil.copy("/bin/true", self.folder / "here")
        for word, code in (("tool", 0), ("here", 127), ("", 127), (".", 126), (str(first), 126), (str(self.folder / "pipe"), 126)):
            with self.subTest(word):
                done = subprocess.run([BIN / "ration", "run", NODE, "--limit", "1GiB", "--", word], env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, code, done.stderr)
        self.environment["PATH"] = f"{first}::"
        done = subprocess.run([BIN / "ration", "run", NODE, "--limit", "1GiB", "--", "here"], env=self.environment, cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_set_user_id_and_capabilities_are_refused(self):
        if os.geteuid() != 0:
            self.skipTest("only root can make such programs")
        program = self.file("suid", pathlib.Path("/bin/true").read_bytes())
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        self.refused([program], "set-uid")
        capable = self.file("capable", pathlib.Path("/bin/true").read_bytes())
        # Version 2, effective, CAP_SYS_NICE: as setcap writes it.
        os.setxattr(capable, "security.capability", (0x02000001).to_bytes(4, "little") + (1 << 23).to_bytes(4, "little") + bytes(12))
        self.assertEqual(self.run_it(capable).returncode, 0, "root gains nothing by it")
        books = self.folder / "of another"
        books.mkdir()
        os.chown(books, 65534, 65534)
        done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", BIN / "ration", "run", NODE, "--limit", "1GiB", "--", capable],
                              env=dict(self.environment, RATION_RUNTIME_DIR=str(books), RATION_SIM_DIR=str(books)), capture_output=True, text=True)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("file capabilities", done.stderr)

    def test_an_older_c_library_is_refused(self):
        """The guard of a made-up future, which this machine's loader turns down."""
        package = self.copied_package()
        future = self.folder / "libc.so.6"
        self.file("future.map", "GLIBC_9.99 { global: ration_future; };\n")
        for source, target, options in (("void ration_future(void) {}\n", future, ["-nostdlib", f"-Wl,--version-script={self.folder}/future.map,-soname,libc.so.6"]),
                                        ("void ration_future(void); const char ration_shim[] = \"\"; int cuInit(unsigned flags) { ration_future(); return (int)flags; }\n",
                                         package / "shim/libcuda.so.1", ["-nostdlib", "-Wl,-soname,libcuda.so.1", future])):
            self.file("source.c", source)
            subprocess.run(["cc", "-shared", "-fPIC", self.folder / "source.c", "-o", target, *options], check=True)
        done = self.run_it("true", ration=package / "bin/ration")
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("C library is too old for the guard", done.stderr)
        self.assertIn("GLIBC_9.99", done.stderr)

    def copied_package(self):
        package = self.folder / "package"
        for part in ("bin", "shim"):
            (package / part).mkdir(parents=True)
        for name in ("ration", "ration-workload"):
            shutil.copy(BIN / name, package / "bin" / name)
        for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libration-audit.so"):
            shutil.copy(BUILD / "shim" / name, package / "shim" / name)
        (package / "sim").symlink_to(BUILD / "sim")
        return package

    def test_a_guard_that_cannot_be_loaded_stops_the_start(self):
        package = self.copied_package()
        marker = self.folder / "started"
        whole = {name: (BUILD / "shim" / name).read_bytes() for name in ("libcuda.so.1", "libnvidia-ml.so.1")}
        for name, content in whole.items():
            for problem, broken in {"it is empty": b"", "it is cut off": content[:len(content) // 4], "another kind of processor": content[:18] + b"\xf3" + content[19:],
                                    "not an ELF": b"#!/bin/sh\n" + content}.items():
                with self.subTest(name=name, problem=problem):
                    (package / "shim" / name).write_bytes(broken)
                    done = self.run_it("touch", marker, ration=package / "bin/ration")
                    self.assertEqual(done.returncode, 125, done.stderr)
                    self.assertIn("E1406", done.stderr)
                    self.assertIn(problem, done.stderr)
            (package / "shim" / name).unlink()
            done = self.run_it("touch", marker, ration=package / "bin/ration")
            self.assertEqual(done.returncode, 125, done.stderr)
            self.assertIn("E1406", done.stderr)
            (package / "shim" / name).write_bytes(content)
        self.assertFalse(marker.exists(), "nothing was started")
        self.assertEqual(self.run_it("touch", marker, ration=package / "bin/ration").returncode, 0)
        self.assertTrue(marker.exists())

    def test_what_can_be_held_is_started_and_held(self):
        script = self.file("job.sh", "#!/usr/bin/env -S sh -e\nexec " + " ".join(GREEDY) + "\n")
        for name, words in {"a program": GREEDY, "a static launcher": [self.static(), *GREEDY], "env with variables": ["env", "A=b", *GREEDY],
                            "a script": [script], "a shell": ["sh", "-c", " ".join(GREEDY)], "timeout": ["timeout", "60", *GREEDY],
                            "a loader": [LOADER, *GREEDY], "a loader with a preload": [LOADER, "--preload", next(iter(pathlib.Path("/lib").glob("*-linux-gnu/libm.so.6"))), *GREEDY]}.items():
            with self.subTest(name):
                self.held(words)

    def test_uv_run_is_started_and_its_python_held(self):
        uv = shutil.which("uv")
        if uv is None:
            self.skipTest("uv is not here")
        self.held([uv, "run", "--no-project", "--offline", "--python", shutil.which("python3"), "python", "-c",
                   f"import os; os.execv({GREEDY[0]!r}, {GREEDY!r})"])

    def test_who_insists_gets_a_word(self):
        done = self.run_it("env", "-u", "LD_PRELOAD", "true", options=["--allow-ungoverned"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "^ration: the limit is not enforced on env: env removes the guard")
        done = self.run_it("true", options=["--allow-ungoverned"])
        self.assertEqual((done.returncode, done.stderr), (0, ""), "it is held all the same")
        done = self.run_it("true", options=["--allow-ungoverned", "--require-enforced"])
        self.assertEqual(done.returncode, 6, done.stderr)
        self.refused_static = self.run_it(self.static(), options=["--require-enforced"])
        self.assertEqual(self.refused_static.returncode, 6)
        self.assertIn("statically linked", self.refused_static.stderr)

    def test_a_dry_run_says_it(self):
        static = self.static_env()
        document = json.loads(self.run_it(static, "-i", "true", options=["--dry-run", "-o", "json"]).stdout)["data"]
        self.assertEqual((document["enforced_by"], "env removes" in document["escape"]), ("nothing", True))
        self.assertIn("NONE: env removes", self.run_it(static, "-i", "true", options=["--dry-run"]).stdout)

    def test_what_others_preload_is_kept_in_order(self):
        other = next(iter(pathlib.Path("/lib").glob("*-linux-gnu/libm.so.6")))
        self.environment.update(LD_PRELOAD=str(other), LD_AUDIT="")
        listed = self.run_it("sh", "-c", "echo $LD_PRELOAD").stdout.strip().split(":")
        self.assertEqual([pathlib.Path(each).name for each in listed[:2]], ["libcuda.so.1", "libnvidia-ml.so.1"])
        self.assertEqual(listed[-1], str(other))
        self.held(GREEDY)

    def test_a_child_that_drops_the_guard_is_shown(self):
        summary = self.folder / "summary.json"
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--limit", "1GiB", "--name", "leaky", "--allow-ungoverned", "--summary", f"json:{summary}", "--", "sh", "-c",
                                    f"unset LD_PRELOAD; {GREEDY[0]} steps 2GiB:1h & echo $!; read line; kill $!"],
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        pid = process.stdout.readline().strip()
        row = self.shown(pid)
        self.assertIn("UNGOVERNED", row)
        self.assertIn("started by workload leaky, but without the guard", row)
        # It looks a second after the start, and then less and less often; there is nothing to wait for but its word.
        until(lambda: self.watched(process.pid), "three looks")
        _, errors = process.communicate("end\n", timeout=60)
        told = json.loads(summary.read_text())["ungoverned"]
        self.assertEqual([each["pid"] for each in told], [int(pid)], errors)
        self.assertGreater(told[0]["peak_bytes"], 1 << 30)
        self.assertIn(f"UNGOVERNED pid {pid}", errors)

    def test_an_orphan_without_guard_and_environment_is_shown(self):
        """Short: the program ends before `ration run` looks for the first time; what it left is looked at then."""
        orphan = f"setsid env -u LD_PRELOAD -u RATION_BOOK {GREEDY[0]} steps 2GiB:1h >out 2>&1"
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--limit", "1GiB", "--name", "leaky", "--allow-ungoverned", "--", "sh", "-c",
                                    f"cd {self.folder}; ({orphan} & echo $! >pid); read line"],
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        pid = until(lambda: (self.folder / "pid").exists() and (self.folder / "pid").read_text().strip(), "the orphan's number")
        self.addCleanup(os.kill, int(pid), signal.SIGKILL)
        self.assertIn("started by workload leaky, but without the guard", self.shown(pid))
        _, errors = process.communicate("end\n", timeout=60)
        self.assertIn(f"UNGOVERNED pid {pid}", errors)

    def test_dropping_the_environment_is_no_way_to_a_limit_of_ones_own(self):
        for orphaned in ("", "setsid --fork "):
            done = self.run_it("sh", "-c", f"{orphaned}env -u RATION_BOOK -u LD_PRELOAD {BIN}/ration run {NODE} --limit 8GiB -- true 2>&1 | cat")
            self.assertIn("E1414", done.stdout)

    def shown(self, pid):
        """The row of `ration ps` with what that process took."""
        def row():
            shown = subprocess.run([BIN / "ration", "ps", NODE], env=self.environment, capture_output=True, text=True).stdout
            return next((line for line in shown.splitlines() if pid in line and "2.06 GiB" in line), None)
        return until(row, f"{pid} holding 2.06 GiB")

    def watched(self, watcher):
        """Whether `ration run` has been running for three of its looks."""
        with open(f"/proc/{watcher}/stat") as file:
            started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        with open("/proc/uptime") as file:
            return float(file.read().split()[0]) - started > 4


if __name__ == "__main__":
    unittest.main()
