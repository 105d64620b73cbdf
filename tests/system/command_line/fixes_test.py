#!/usr/bin/env python3
"""What is typed works: every kind of denial, and every error whose fix is a command, happens here; the fix is given to a shell as it is
printed, and then what was denied is granted, what was an error is done."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "node"))
from node_case import Case  # noqa: E402
from node_client import BIN, SOURCE  # noqa: E402

OUT_OF_MEMORY = 2


class Fixes(Case):
    """With a daemon."""
    node = "--sim=T4:16GiB:context=64MiB*2"
    configuration = """
[[tenant]]
name = "small"
limit = "3GiB"
"""

    def typed(self, line, **options):
        """A printed command, as a shell takes it; PROGRAM and … stand for a program that somebody has."""
        command = line.split("   ")[0]
        command = re.sub(r"-- (…|PROGRAM)$", "-- true", command)
        self.assertRegex(command, "^ration ")
        environment = dict(self.environment, PATH=f"{BIN}:{os.environ['PATH']}")
        return subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=120, cwd=self.folder, **options)

    def works(self, line, **options):
        done = self.typed(line, **options)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
        return done

    def all_work(self, text):
        """Every command in a sentence; of one that the daemon has to be there for, the words in which it says so."""
        for command in re.findall(r"(?<!')\bration [^,;()]*?(?=   |[,;()]|$)", text):
            done = self.typed(command)
            self.assertTrue(done.returncode == 0 or not self.daemon and "E1501" in done.stderr, f"{command}\n{done.stdout}{done.stderr}")

    def running(self, name, *options, program=("obey",)):
        process = subprocess.Popen([BIN / "ration", "run", self.node, "--name", name, *options, "--", BIN / "ration-workload", *program],
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.wait(), process.stdin.close(), process.stdout.close(), process.stderr.close()))
        return process

    def asked(self, process, order):
        process.stdin.write(order + "\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    def ended(self, name, *options, program=(BIN / "ration-workload", "steps", "4GiB:1ms", "--block", "4GiB")):
        """A run that is over, denied."""
        done = self.ration("run", self.node, "--name", name, *options, "--", *program)
        self.assertEqual(done.returncode, 1, done.stderr)

    def told(self, name, reason):
        """The denial of a workload, by what `ration why` says of it."""
        done = self.ration("why", self.node, name, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        denial = json.loads(done.stdout)["data"]
        self.assertEqual((denial["workload"], denial["reason"]), (name, reason))
        return denial

    def fix(self, name, reason, expected):
        """Of the newest denial, when whoever is asked knows all of it."""
        return self.until(lambda: re.search(expected, fix := self.told(name, reason)["fix"]) and fix, f"a fix like {expected}, but: " + self.told(name, reason)["fix"])

    def error(self, code, number, *words):
        done = self.ration(*words)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(f"{number} ration: ", done.stderr)
        return done.stderr.splitlines()[-1].strip()

    # -------------------------------------------------------------------------------------------------- denied at a limit

    def test_at_its_limit(self):
        program = self.running("eager", "--gpu", "0", "--limit", "2GiB")
        self.assertEqual(self.asked(program, "take 3072"), OUT_OF_MEMORY)
        self.works(self.fix("eager", "limit", "^ration set .*eager --limit"))
        self.assertEqual(self.asked(program, "take 3072"), 0)

    def test_at_its_limit_on_one_of_two_gpus(self):
        program = self.running("eager", "--gpu", "0,1", "--limit", "2GiB")
        self.assertEqual(self.asked(program, "take 3072"), OUT_OF_MEMORY)
        self.works(self.fix("eager", "limit", "^ration set .*eager --gpu 0 --limit"))
        self.assertEqual(self.asked(program, "take 3072"), 0)

    def test_at_the_limit_of_a_run_that_is_over(self):
        self.ended("late", "--gpu", "1", "--limit", "2GiB")
        self.works(self.fix("late", "limit", r"^ration run .*--gpu 1 .*--limit [\d.]+GiB -- .*steps 4GiB:1ms --block 4GiB$"))

    def test_managed_memory_that_is_charged(self):
        program = self.running("eager", "--limit", "2GiB", "--managed", "charge")
        self.assertEqual(self.asked(program, "managed 3072"), OUT_OF_MEMORY)
        done = self.works(self.fix("eager", "limit", "^ration run .*--managed resident -- .*obey"), input="managed 3072\n")
        self.assertEqual(done.stdout, "0\n")

    def test_after_it_waited_for_a_limit(self):
        program = self.running("patient", "--gpu", "0", "--limit", "2GiB", "--on-deny", "wait:100ms")
        self.assertEqual(self.asked(program, "take 1024"), 0)
        self.assertEqual(self.asked(program, "take 1536"), OUT_OF_MEMORY)
        self.works(self.fix("patient", "limit", "^ration set .*patient --limit"))
        self.assertEqual(self.asked(program, "take 1536"), 0)

    # --------------------------------------------------------------------------------------------------- denied elsewhere

    def test_on_a_gpu_that_was_not_granted(self):
        steps = ("env", "CUDA_VISIBLE_DEVICES=1", str(BIN / "ration-workload"), "steps", "512MiB:1ms")
        self.ended("astray", "--gpu", "0", "--limit", "1GiB", program=steps)
        self.works(self.fix("astray", "not_granted", "^ration run .*--gpu 0,1 --limit 1GiB -- env CUDA_VISIBLE_DEVICES=1"))

    def test_in_the_program_at_its_share(self):
        script = self.folder / "shares.py"
        script.write_text("""import ctypes, sys, ration
cuda, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
with eval(sys.argv[1], {"ration": ration}):
    print(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(2 << 30)))
""")

        def answer(share):
            return self.ration("run", self.node, "--name", "parts", "--gpu", "0", "--limit", "8GiB", "--", sys.executable, script, share,
                               env={"PYTHONPATH": str(SOURCE / "libration/python"), "RATION_LIBRARY": str(BIN.parent / "lib/libration.so.1")}).stdout
        self.assertEqual(answer("ration.share('part', '1GiB')"), f"{OUT_OF_MEMORY}\n")
        fix = self.told("parts", "share")["fix"]
        self.assertEqual(answer(re.search("^in the program: (.*)$", fix)[1]), "0\n", fix)

    def held(self, size, *options):
        """A workload that holds that much of GPU 0 until it is ended."""
        holder = self.running("holder", "--gpu", "0", *options, program=("hold", size))
        self.assertIn("holding", holder.stdout.readline())
        return holder

    def over(self, process):
        process.terminate()
        process.wait()

    def test_on_a_gpu_that_is_full(self):
        holder = self.held("14GiB")
        program = self.running("eager", "--gpu", "0", "--limit", "8GiB")
        self.assertEqual(self.asked(program, "take 4096"), OUT_OF_MEMORY)
        fix = self.fix("eager", "device_full", "^ration ps .*: --on-deny wait$")
        self.assertIn("holder", self.works(fix).stdout)
        self.over(program)
        patient = self.running("patient", "--gpu", "0", "--limit", "8GiB", "--on-deny", "wait")
        patient.stdin.write("take 4096\n")
        patient.stdin.flush()
        self.until(lambda: "waiting" in self.ration("ps", self.node, "patient", "-o", "json").stdout, "it waits")
        self.over(holder)
        self.assertEqual(patient.stdout.readline(), "0\n")

    def test_on_a_gpu_that_was_full_for_longer_than_it_waited(self):
        holder = self.held("14GiB")
        program = self.running("patient", "--gpu", "0", "--limit", "8GiB", "--on-deny", "wait:100ms")
        self.assertEqual(self.asked(program, "take 4096"), OUT_OF_MEMORY)
        self.assertIn("holder", self.works(self.fix("patient", "device_full", "^ration ps .*wait longer")).stdout)
        self.over(holder)
        self.assertEqual(self.asked(program, "take 4096"), 0)

    # ----------------------------------------------------------------------------------------------- errors before a start

    def test_more_than_a_gpu_has(self):
        self.works(self.error(4, "E1104", "fits", self.node, "40GiB"))

    def test_what_does_not_fit_now(self):
        holder = self.held("10GiB")
        fits, waits = self.error(4, "E1302", "fits", self.node, "--gpu", "0", "8GiB").split("   would, or: ")
        self.works(fits)
        self.assertRegex(waits, "--gpu 0 --limit 8GiB -- …$")
        self.over(holder)
        self.works(waits)

    def test_more_than_can_be_kept_now(self):
        holder = self.held("10GiB")
        wish = ("--gpu", "0", "--limit", "9GiB", "--guarantee")
        fix = self.error(4, "E1303", "run", self.node, *wish, "8GiB", "--", "true")
        most, then = re.match(r"--guarantee (\S+), at most; or: (.*)", fix).groups()
        self.assertEqual(self.ration("run", self.node, *wish, most, "--", "true").returncode, 0)
        if self.daemon:
            self.assertRegex(then, "--wait --gpu 0 --limit 9GiB -- …")
            self.over(holder)
        self.works(then)

    def test_leaving_less_than_is_held_needs_a_yes(self):
        self.held("4GiB", "--limit", "8GiB")
        again = self.error(4, "E1205", "set", "holder", self.node, "--limit", "2GiB")
        self.works(again)
        self.until(lambda: json.loads(self.ration("ps", self.node, "-o", "json").stdout)["data"][0]["limit_bytes"] == 2 << 30, "the new limit")
        self.works(self.error(4, "E1205", "stop", "holder", self.node))

    def test_a_program_that_cannot_be_started(self):
        script = self.folder / "it is.py"
        script.write_text("print('runs')\n")
        fix = re.search("Did you mean: (.*) [?]$", self.error(126, "E1401", "run", self.node, "--", script))[1]
        self.assertEqual(self.works(fix).stdout, "runs\n")
        script = script.rename(self.folder / "it is")
        script.write_text("#!/bin/sh\necho runs\n")
        fix = self.error(126, "E1401", "run", self.node, "--", script).split("   ")[0]
        self.assertEqual(subprocess.run(["sh", "-c", fix]).returncode, 0)
        self.assertEqual(self.ration("run", self.node, "--", script).stdout, "runs\n")

    def test_slices(self):
        self.works(self.error(2, "E1609", "split", self.node, "0", "--into", "2", "--ratio", "1:1"))
        self.assertEqual(self.ration("split", self.node, "1", "--into", "2").returncode, 0)
        self.works(self.error(3, "E1608", "run", self.node, "--slice", "9.9", "--", "true"))
        self.works(self.error(2, "E1605", "run", self.node, "--slice", "1.0", "--limit", "1GiB", "--", "true"))

    def test_nothing_to_look_at(self):
        for code, number, words in ((3, "E1801", ("explain", "nobody")), (3, "E1413", ("why",)), (3, "E1801", ("set", "nobody", "--limit", "1GiB")),
                                    (2, "E1412", ("why", "d-x")), (3, "E1407", ("run", "--gpu", "7", "--", "true")), (2, "E1421", ("doctor", "--only", "nothing"))):
            with self.subTest(words=words):
                self.all_work(self.error(code, number, words[0], self.node, *words[1:]))

    # --------------------------------------------------------------------------------------------------------- the doctor

    def test_the_doctor_warns_of_values_that_make_a_framework_take_all(self):
        for variable, value, part, fix in (("TF_FORCE_GPU_ALLOW_GROWTH", "1", "TensorFlow reads only true and false", "export TF_FORCE_GPU_ALLOW_GROWTH=true"),
                                           ("TF_FORCE_GPU_ALLOW_GROWTH", "false", "will allocate its whole limit", "unset it, or: ration run "),
                                           ("XLA_PYTHON_CLIENT_PREALLOCATE", "1", "will allocate most of its limit", "unset it, or: ration run ")):
            done = self.ration("doctor", self.node, "--only", "fw.conflict", "-o", "json", env={variable: value})
            row, = json.loads(done.stdout)["data"]
            self.assertEqual(row["result"], "WARN", row)
            self.assertTrue(row["fix"].startswith(fix), row)
            self.assertIn(f"{variable}={value} is exported", row["message"])
            self.assertIn(part, row["message"])
        for variable, value in (("TF_FORCE_GPU_ALLOW_GROWTH", "true"), ("XLA_PYTHON_CLIENT_PREALLOCATE", "0")):
            row, = json.loads(self.ration("doctor", self.node, "--only", "fw.conflict", "-o", "json", env={variable: value}).stdout)["data"]
            self.assertEqual(row["result"], "OK", row)

    def test_what_the_doctor_finds(self):
        """Each finding whose fix is a command, of a node with an ungoverned program and a variable that makes frameworks take all."""
        ungoverned = subprocess.Popen([BIN / "ration-workload", "hold", "1GiB"], stdout=subprocess.PIPE, text=True,
                                      env=dict(self.environment, LD_LIBRARY_PATH=str(BIN.parent / "sim"), RATION_SIM=self.node.removeprefix("--sim=")))
        self.addCleanup(lambda: (ungoverned.kill(), ungoverned.communicate()))
        self.assertIn("holding", ungoverned.stdout.readline())
        done = self.ration("doctor", self.node, "-o", "json", env={"TF_FORCE_GPU_ALLOW_GROWTH": "false"})
        rows = json.loads(done.stdout)["data"]
        fixes = {row["check"]: row["fix"] for row in rows if row["fix"]}
        self.assertIn("mem.ungoverned", fixes)
        for check, fix in fixes.items():
            with self.subTest(check=check):
                self.all_work(fix)


class Governed(Fixes):
    """What the daemon alone keeps."""

    def test_at_the_limit_of_its_tenant(self):
        program = self.running("eager", "--gpu", "0", "--tenant", "small", "--limit", "8GiB")
        self.assertEqual(self.asked(program, "take 4096"), OUT_OF_MEMORY)
        self.works(self.fix("eager", "limit", "^ration set .*small --limit"))
        self.assertEqual(self.asked(program, "take 4096"), 0)

    def test_at_the_limit_of_its_tenant_when_it_is_over(self):
        self.ended("late", "--gpu", "0", "--tenant", "small", "--limit", "8GiB")
        self.works(self.fix("late", "limit", r"^ration set .*small --limit \S+   \(no limit would allow more than 3\.00 GiB now: tenant small has a limit of 3\.00 GiB\)$"))
        self.assertEqual(self.ration("run", self.node, "--gpu", "0", "--tenant", "small", "--limit", "8GiB", "--", BIN / "ration-workload", "steps", "4GiB:1ms").returncode, 0)

    def test_where_others_are_promised_the_rest(self):
        self.held("1GiB", "--guarantee", "13GiB")
        program = self.running("eager", "--gpu", "0", "--limit", "8GiB")
        self.assertEqual(self.asked(program, "take 4096"), OUT_OF_MEMORY)
        self.works(self.fix("eager", "limit", "^ration set .*holder --guarantee"))
        self.assertEqual(self.asked(program, "take 4096"), 0)

    def test_where_others_are_promised_the_rest_when_it_is_over(self):
        self.held("1GiB", "--guarantee", "13GiB")
        self.ended("late", "--gpu", "0", "--limit", "8GiB")
        self.assertIn("holder", self.works(self.fix("late", "limit", "^ration explain .*--gpu 0 ")).stdout)
        self.works(f"ration set {self.node} holder --guarantee 2GiB")
        self.assertEqual(self.ration("run", self.node, "--gpu", "0", "--limit", "8GiB", "--", BIN / "ration-workload", "steps", "4GiB:1ms").returncode, 0)

    def test_a_run_of_a_tenant_that_is_over(self):
        self.ended("late", "--gpu", "1", "--tenant", "small", "--limit", "1GiB", program=(BIN / "ration-workload", "steps", "1GiB:1ms", "--block", "1GiB"))
        self.works(self.fix("late", "limit", r"^ration run .*--gpu 1 --tenant small --limit [\d.]+GiB -- "))

    def test_a_run_that_has_to_have_its_whole_limit(self):
        self.held("1GiB", "--guarantee", "13GiB")
        less, who = self.error(6, "E1447", "run", self.node, "--gpu", "0", "--limit", "8GiB", "--require-limit", "--", "true").split("   fits; ")
        self.works(less.replace("ration run ", "ration run --require-limit "))
        self.works(who)

    def test_a_guarantee_beside_others(self):
        self.held("1GiB", "--guarantee", "13GiB")
        fix = self.error(4, "E1304", "run", self.node, "--gpu", "0", "--guarantee", "8GiB", "--", "true")
        most = re.match(r"--guarantee (\S+), at most", fix)[1]
        self.assertEqual(self.ration("run", self.node, "--gpu", "0", "--guarantee", most, "--", "true").returncode, 0)

    def test_waited_too_long(self):
        holder = self.held("14GiB")
        words = ("run", self.node, "--gpu", "0", "--limit", "8GiB")
        self.works(self.error(124, "E1309", *words, "--wait=100ms", "--", "true"))
        self.works(self.error(2, "E1310", "run", self.node, "--wait", "--", "true").replace("20GiB", "1GiB"))


class WithoutADaemon(Fixes):
    def start(self, *options):
        pass



class UnderAPolicy(Case):
    configuration = """
[[policy]]
match = { users = ["root"] }
limit = "3GiB"
per = "user"
"""

    @unittest.skipUnless(os.geteuid() == 0, "the policy is for root")
    def test_a_request_that_no_option_of_the_run_admits_is_not_repeated(self):
        for options in ((), ("--on-deny", "wait:100ms")):
            self.ration("run", self.node, "--name", "greedy", "--limit", "5GiB", *options, "--", BIN / "ration-workload", "hold", "4GiB")
            said = self.ration("why", self.node).stdout
            self.assertRegex(said, r"\nfix      ration config .*reload   once root has raised this limit; or ask for less \(.*ration\.toml:\d+ sets 3\.00 GiB")
            self.assertNotIn("--on-deny", said)


if __name__ == "__main__":
    unittest.main()
