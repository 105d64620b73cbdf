#!/usr/bin/env python3
"""What a governed program starts is governed, whatever environment its launcher gave it; judged by what the simulated card truly held."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node_client import BIN, own_folder  # noqa: E402

NODE = "--sim=T4:16GiB:context=64MiB"
SIM = "T4:16GiB:context=64MiB"
STARTER = os.environ.get("STARTER", str(BIN / "exec_starter"))
LIMIT = 1 << 30
GREEDY = [str(BIN / "ration-workload"), "steps", "512MiB:1ms", "2GiB:1ms"]  # takes 512 MiB, and then what it may not have
LINE = " ".join(GREEDY)
WAYS = ["execve", "execve-null", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve", "execveat", "execveat-empty", "fexecve-path", "posix_spawn",
        "posix_spawn-null", "posix_spawnp", "system", "popen", "wordexp", "vfork", "fork-of-a-thread", "huge-environment", "two-preloads", "another-book", "freed"]


class ExecRoutes(unittest.TestCase):
    def setUp(self):
        self.folder = own_folder(self)
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_"))}
        self.environment = dict(own, RATION_RUNTIME_DIR=str(self.folder), RATION_SIM_DIR=str(self.folder / "sim"), PATH=f"{BIN}:{own['PATH']}")
        (self.folder / "sim").mkdir()

    def run_it(self, *words, options=(), environment=None, cwd=None):
        return subprocess.run([BIN / "ration", "run", NODE, "--limit", "1GiB", *options, "--", *map(str, words)], env=environment or self.environment, cwd=cwd,
                              capture_output=True, text=True)

    def peak(self):
        """The most that the card ever held."""
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=SIM), capture_output=True, text=True)
        return max((device["peak_bytes"] for device in json.loads(told.stdout)["devices"]), default=0)

    def held(self, *words, **how):
        before = self.peak() if any((self.folder / "sim").iterdir()) else 0
        self.assertLessEqual(before, LIMIT)
        done = self.run_it(*words, **how)
        self.assertIn("of 1.00 GiB", done.stderr, f"{words}: {done.returncode} {done.stdout} {done.stderr}")
        self.assertGreater(self.peak(), 1 << 29, "it did take something")
        self.assertLessEqual(self.peak(), LIMIT, words)
        return done

    def library(self, name="pre", source="int own_library = 1;"):
        """A user's own preloaded library, as torch_memory_saver and jemalloc are."""
        (self.folder / f"{name}.c").write_text(source)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.folder / f"{name}.so", self.folder / f"{name}.c"], check=True)
        return self.folder / f"{name}.so"

    def test_every_way_to_start_a_program_without_the_guard_starts_it_with_the_guard(self):
        for enforced in ([], ["--require-enforced"]):
            for way in WAYS:
                with self.subTest(way, enforced=enforced):
                    self.held(STARTER, way, *GREEDY, options=enforced)

    def test_with_require_enforced_a_system_call_that_leaves_the_audit_library_drops_nothing(self):
        for way in ("audit-alone", "driver-first"):
            with self.subTest(way):
                self.held(STARTER, way, *GREEDY, options=["--require-enforced"])

    def test_launchers_that_set_or_clear_the_environment(self):
        own = self.library()
        for enforced in ([], ["--require-enforced"]):
            for line in (f"LD_PRELOAD={own} {LINE}", f"LD_PRELOAD=./pre.so {LINE}", f"LD_PRELOAD={own}:$LD_PRELOAD {LINE}", f"unset LD_PRELOAD; {LINE}", f"env -i {LINE}",
                         f"env -u LD_PRELOAD -u RATION_BOOK {LINE}", f"(LD_PRELOAD= exec {LINE})", f"LD_PRELOAD= sh -c 'LD_PRELOAD= {LINE}'",
                         f"LD_PRELOAD=$RATION_DRIVER_PATH/libcuda.so.1:$LD_PRELOAD {LINE}", f"echo {LINE} | env -i xargs env -i"):
                with self.subTest(line, enforced=enforced):
                    self.held("bash", "-c", line, options=enforced, cwd=self.folder)

    def test_python_starts_its_children_with_the_guard(self):
        for call in (f"subprocess.run({GREEDY}, env={{}})", f"subprocess.run({GREEDY}, env={{'LD_PRELOAD': {str(self.library())!r}}})", f"subprocess.run({GREEDY}, env={{}}, preexec_fn=int)",
                     f"subprocess.run({LINE!r}, shell=True, env={{}})", f"os.environ.clear(); os.system({LINE!r})", f"os.environ.clear(); os.popen({LINE!r}).read()",
                     f"os.posix_spawn({GREEDY[0]!r}, {GREEDY}, {{}}) and os.wait()", f"os.execve({GREEDY[0]!r}, {GREEDY}, {{}})",
                     f"asyncio.run(asyncio.wait_for(asyncio.create_subprocess_exec(*{GREEDY}, env={{}}), 60)) and os.wait()"):
            with self.subTest(call):
                self.held(sys.executable, "-c", f"import asyncio, os, subprocess; {call}")

    def test_the_programs_own_preload_is_loaded_behind_the_guard_and_the_rest_of_the_environment_is_untouched(self):
        own = self.library(source="#include <stdlib.h>\n__attribute__((constructor)) static void tell(void) { setenv(\"OWN_LIBRARY\", \"loaded\", 1); }\n")
        shown = self.run_it("bash", "-c", f"exec env -i Z=1 A=2 A=3 LD_PRELOAD={own} {sys.executable} -c 'import os; print(os.environ)'").stdout
        variables = eval(shown.replace("environ(", "dict("))  # noqa: S307
        self.assertEqual(variables["OWN_LIBRARY"], "loaded")
        entries = [pathlib.Path(entry).name for entry in variables["LD_PRELOAD"].split(":")]
        self.assertEqual(entries, ["libcuda.so.1", "libnvidia-ml.so.1", "pre.so"])
        self.assertEqual((variables["Z"], variables["A"]), ("1", "3"))
        self.assertIn("RATION_BOOK", variables)
        again = self.run_it("bash", "-c", f"LD_PRELOAD={own}:$LD_PRELOAD bash -c 'LD_PRELOAD={own}:$LD_PRELOAD env'").stdout
        preload = next(line for line in again.splitlines() if line.startswith("LD_PRELOAD="))
        self.assertEqual(preload.count("libcuda.so.1"), 1, "it does not grow by the guard")

    def test_a_program_that_keeps_its_environment_sees_no_difference(self):
        for code in ("import os; print(sorted(os.environ))", "import os; print(os.environ['LD_PRELOAD'])"):
            inner = self.run_it(sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])")
            self.assertEqual(inner.stdout, self.run_it(sys.executable, "-c", code).stdout)

    def rows(self):
        told = subprocess.run([BIN / "ration", "ps", NODE, "-o", "json"], env=self.environment, capture_output=True, text=True)
        return {row["workload"]: row for row in json.loads(told.stdout)["data"]}

    def test_a_launcher_that_a_script_starts_is_noted_in_the_book_and_told(self):
        """What it has started elsewhere no limit holds: that is said, once for each, whoever starts it and how."""
        tools = self.folder / "tools"
        tools.mkdir()
        names = ("tmux", "ssh", "srun", "at", "kubectl", "machinectl", "nsenter", "ray")
        for name in names:
            (tools / name).write_text("#!/bin/sh\nexit 0\n")
            (tools / name).chmod(0o755)
        go = self.folder / "go"
        os.mkfifo(go)
        here = dict(self.environment, PATH=f"{tools}:{self.environment['PATH']}")
        script = f"""ssh a; sh -c 'ssh b'; {tools}/tmux new -d x; nohup at now </dev/null; ray start; ls >/dev/null; no-such/srun; echo begun; read line < {go}
{sys.executable} -c 'import os, subprocess; subprocess.run(["kubectl"]); os.system("machinectl shell"); os.posix_spawnp("nsenter", ["nsenter"], {{}}); os.wait()'
ray job submit; echo done; read line < {go}"""
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "script", "--limit", "1GiB", "--", "bash", "-c", script], env=here, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        self.addCleanup(lambda: (os.killpg(process.pid, signal.SIGKILL), process.communicate()))
        self.assertEqual(process.stdout.readline(), "begun\n")
        row = self.rows()["script"]
        self.assertEqual(row["launchers"], ["ssh", "tmux", "at"])
        self.assertNotIn("unlisted_function_count", row)
        shown = subprocess.run([BIN / "ration", "ps", NODE], env=self.environment, capture_output=True, text=True).stdout
        self.assertIn("started ssh, tmux, at: programs that launchers start run outside of this workload, without its limit", shown)
        go.write_text("on\n")
        self.assertEqual(process.stdout.readline(), "done\n")
        self.assertEqual(self.rows()["script"]["launchers"], ["ssh", "tmux", "at", "kubectl", "machinectl", "nsenter", "ray"])
        go.write_text("on\n")

    def test_allow_ungoverned_leaves_what_a_launcher_asked_for(self):
        done = self.run_it("sh", "-c", f"unset LD_PRELOAD; exec {LINE}", options=["--allow-ungoverned"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(self.peak(), 2 << 30)

    def test_answers_are_those_of_libc(self):
        text = self.folder / "text"
        text.write_text("exit 5\n")
        text.chmod(0o755)
        governed = self.run_it(STARTER, "errors", cwd=self.folder)
        bare = subprocess.run([STARTER, "errors"], env=self.environment, cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((governed.returncode, governed.stderr), (0, ""))
        self.assertEqual(governed.stdout, bare.stdout)
        self.assertGreater(len(bare.stdout.splitlines()), 60)

    def test_a_program_that_the_guard_is_not_made_for_is_left_alone(self):
        """musl's loader would end with an error, that of a 32-bit program would complain on standard error. Another preloaded execve() is called behind the guard's: it shows
        what that hands on."""
        own = self.library(source="#include <errno.h>\n#include <stdio.h>\n#include <string.h>\nint execve(const char* path, char* const* words, char* const* variables) {\n"
                           "  for (; *variables; ++variables) if (!strncmp(*variables, \"LD_PRELOAD=\", 11)) puts(*variables);\n  fflush(stdout); errno = EDOM; return -1; }\n")
        interpreter = b"/lib64/ld-linux-x86-64.so.2" if os.uname().machine == "x86_64" else b"/lib/ld-linux-aarch64.so.1"
        true = pathlib.Path("/bin/true").read_bytes()
        programs = {"glibc": true, "musl": true.replace(interpreter, b"/lib/ld-musl.so.1".ljust(len(interpreter), b"\0")), "narrow": true[:4] + b"\x01" + true[5:],
                    "other": true[:18] + b"\xf3" + true[19:], "script": b"#!/bin/sh\n", "script of musl": f"#!{self.folder}/musl -x\n".encode(), "empty": b""}
        for name, content in programs.items():
            (self.folder / name).write_bytes(content)
            (self.folder / name).chmod(0o755)
            with self.subTest(name):
                code = f"import os\ntry: os.execve({str(self.folder / name)!r}, ['x'], {{'A': 'b'}})\nexcept OSError as error: print(error.errno)"
                shown = self.run_it("bash", "-c", f"LD_PRELOAD={own} exec {sys.executable} -c \"$0\"", code).stdout.splitlines()
                self.assertEqual(shown[-1:], ["33"])
                self.assertEqual(len(shown), 2 if name in ("glibc", "script", "empty") else 1, shown)

    def test_ration_itself_runs_without_the_guard(self):
        done = self.run_it("sh", "-c", f"env -i RATION_RUNTIME_DIR={self.folder} {BIN}/ration ps {NODE}; env -i {BIN}/ration run {NODE} -- true")
        self.assertIn("E1414", done.stderr)
        self.assertIn("sh-1", done.stdout)


if __name__ == "__main__":
    unittest.main()
