#!/usr/bin/env python3
"""The command line on a simulated GPU: every verb, its JSON against the shipped schemas, every bad input with its exit code."""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unicodedata
import unittest

import jsonschema

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import waiting  # noqa: E402, F401

BIN = pathlib.Path(os.environ["BUILD_BIN"])
PARTS = pathlib.Path(os.environ.get("BUILD_PARTS", BIN.parent))  # of an installed package they lie elsewhere
SOURCE = pathlib.Path(os.environ["SOURCE"])
MIB = 1 << 20
NODE = "--sim=T4:16GiB:context=64MiB"


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "CUDA_", "TF_", "XLA_"))}
        self.environment = dict(own, RATION_SIM_DIR=folder.name, RATION_RUNTIME_DIR=folder.name, HOME=folder.name, LC_ALL="C.UTF-8")
        self.environment.pop("XDG_CONFIG_HOME", None)

    def ration(self, *arguments, **options):
        return subprocess.run([BIN / "ration", *map(str, arguments)], env=dict(self.environment, **options.pop("env", {})), capture_output=True,
                              text=True, timeout=120, **options)

    def refused(self, code, error, *arguments, **options):
        """One error line with its number, then what to type; the exit code; nothing on standard output."""
        done = self.ration(*arguments, **options)
        lines = [line for line in done.stderr.splitlines() if not line.startswith("ration-sim: ")]  # the simulator's own word
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertTrue(lines and lines[0].startswith(error + " ration: "), done.stderr)
        self.assertEqual(len(lines), 2, done.stderr)
        self.assertTrue(lines[1].strip(), "what to type")
        return done.stderr

    def document(self, verb, *arguments, code=0, **options):
        done = self.ration(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        document = json.loads(done.stdout)
        jsonschema.validate(document, json.loads((SOURCE / "share/ration/schema" / f"{verb}.json").read_text()))
        return document

    def test_what_cannot_be_printed_costs_nothing_else(self):
        full = open("/dev/full", "w")
        self.addCleanup(full.close)
        closed, nobody = os.pipe()
        os.close(closed)
        self.addCleanup(os.close, nobody)
        script = ("run", NODE, "--limit", "1GiB", "--summary", "always", "--", "sh", "-c", "exit 7")
        for name, how in (("full", {"stderr": full}), ("closed", {"preexec_fn": lambda: os.close(2)}), ("nobody reads", {"stderr": nobody})):
            with self.subTest(name):
                start = lambda *words, **more: subprocess.run([BIN / "ration", *words], env=self.environment, timeout=60, **{"stdout": subprocess.PIPE, **how, **more}).returncode
                self.assertEqual(start(*script), 7)
                self.assertEqual(start("nonsense"), 2)
                self.assertEqual(start("run", NODE, "--", "/no/such/program"), 127)
        self.assertEqual(subprocess.run([BIN / "ration", "ps", NODE], env=self.environment, stdout=full, stderr=subprocess.PIPE, text=True).stderr.split(" ")[0], "E1002")
        self.assertEqual(subprocess.run([BIN / "ration", "ps", NODE], env=self.environment, stdout=full, stderr=full).returncode, 1)
        held = subprocess.run([BIN / "ration", "run", NODE, "--", "sh", "-c", "[ -e /proc/self/fd/2 ] && echo open || echo closed"], env=self.environment,
                              stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.close(2))
        self.assertEqual(held.stdout, "closed\n", "the program finds its streams as they were")

    def test_a_reader_that_has_enough_ends_it_silently(self):
        for words in (["help", "errors"], ["run", "--help"], ["version"]):
            for action in (signal.SIG_DFL, signal.SIG_IGN):  # some launchers ignore it
                with self.subTest(words=words, action=action):
                    nobody, output = os.pipe()
                    os.close(nobody)
                    done = subprocess.run([BIN / "ration", *words], env=self.environment, stdout=output, stderr=subprocess.PIPE, text=True,
                                          restore_signals=False, preexec_fn=lambda: signal.signal(signal.SIGPIPE, action))
                    os.close(output)
                    self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, ""))

    def test_a_summary_that_cannot_be_written_is_told(self):
        for place in ("/no/such/folder/run.json", str(self.folder), ""):
            marker = self.folder / "started"
            self.refused(125, "E1405", "run", NODE, "--summary", f"json:{place}", "--", "touch", marker)
            self.assertFalse(marker.exists(), "nothing was started")
        done = self.ration("run", NODE, "--summary", "json:/dev/full", "--", "sh", "-c", "exit 7")
        self.assertEqual((done.returncode, done.stderr.split(" ")[0]), (7, "E1405"))

    def test_documents_about_instances_and_unsaid_numbers_are_as_described(self):
        for node, gpu in (("GB10", "0"), ("A100-40:mig=3g.20gb*2", "0.1")):
            with self.subTest(node=node):
                self.document("ps", "ps", f"--sim={node}", "--json")
                self.document("explain_device", "explain", f"--sim={node}", "--gpu", gpu, "--json")
        self.refused(3, "E1407", "run", "--sim=A100-40:mig=3g.20gb*2", "--gpu", "0", "--", "true")

    def initial_configuration(self):
        self.assertEqual(self.ration("config", "init", self.folder / "initial.toml").returncode, 0)
        return (self.folder / "initial.toml").read_text()

    def holding(self, name, size, *options):
        """A workload that holds `size` and stays."""
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--name", name, *options, "--", BIN / "ration-workload", "hold", size],
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        self.assertIn("holding", process.stdout.readline())
        return process

    # ------------------------------------------------------------------------------------------------------ bad input

    def test_all_cards_of_a_node_that_was_typed_are_granted(self):
        count = ("import ctypes; cuda, count = ctypes.CDLL('libcuda.so.1'), ctypes.c_int(); cuda.cuInit(0); "
                 "cuda.cuDeviceGetCount(ctypes.byref(count)); print(count.value)")
        for options, granted in (((), "2"), (("--gpu", "1"), "1"), (("--gpu", "auto"), "1")):
            done = self.ration("run", "--sim=T4*2", *options, "--limit", "1GiB", "--", sys.executable, "-c", count)
            self.assertEqual(done.stdout, granted + "\n", done.stderr)

    def test_options_that_belong_together(self):
        self.refused(2, "E1001", "run", NODE, "--priority", "3", "--", "true")
        self.assertIn("--tenant= has no value", self.refused(2, "E1001", "explain", "--tenant=", NODE))
        self.assertIn("--name= has no value", self.refused(2, "E1001", "run", "--name=", NODE, "--", "true"))
        self.assertEqual(self.ration("run", NODE, "--", "true", "--theirs=").returncode, 0)

    def test_no_word_before_the_program_is_passed_over(self):
        for option in ("--name", "--label"):
            stray = self.refused(2, "E1402", "run", NODE, option, "a=my", "job", "--limit", "1GiB", "--", "true")
            self.assertIn("'job' before '--'", stray)
        self.assertEqual(self.ration("run", NODE, "--label", "a=b", "--label", "c=d", "true").returncode, 0)
        self.assertIn("'foo'", self.refused(2, "E1402", "run", NODE, "--limit", "1GiB", "foo", "--dry-run", "--", "true"))
        self.assertIn("'foo'", self.refused(2, "E1402", "run", NODE, "foo", "--limt", "1GiB", "--", "true"))
        self.assertIn("'foo'", self.refused(2, "E1402", "run", NODE, "foo", "--"))
        self.assertEqual(self.ration("run", NODE, "--limit", "1GiB", "printf", "%s", "--limit").stdout, "--limit", "without a '--' the rest is the program's")

    def test_an_empty_word_is_not_the_same_as_none(self):
        for option in ("--limit", "--slice", "--guarantee", "--gpu", "--name", "--tenant", "--label", "--on-deny"):
            with self.subTest(option=option):
                self.assertIn(f"'{option}' is empty", self.refused(2, "E1001", "run", NODE, option, "", "--", "true"))
                self.assertIn(f"'{option}' is empty", self.refused(2, "E1001", "run", NODE, option, "", "true"))
                self.assertIn(f"{option}= has no value", self.refused(2, "E1001", "run", NODE, option + "=", "--", "true"))
        for words in (("set", "x", "--limit", ""), ("set", ""), ("suspend", ""), ("recommend", ""), ("explain", ""), ("fits", ""), ("ps", "--tenant", ""), ("",)):
            with self.subTest(words=words):
                self.refused(2, "E1001", *words)
        self.assertEqual(self.ration("run", NODE, "--", "printf", "%s", "").returncode, 0, "of a program they are its own")
        self.assertEqual(self.ration("run", NODE, "printf", "%s", "").returncode, 0)

    def test_a_name_holds_nothing_that_a_terminal_obeys(self):
        for bad in ("a\u009b2Jb", "a\u202eb", "a\u2066b", "a\u200fb", "a\u2028b", b"a\xffb", b"a\x9b2Jb"):
            with self.subTest(bad=bad):
                for option in ("--name", "--tenant"):
                    words = [BIN / "ration", "run", NODE, option, bad, "--", "true"]
                    done = subprocess.run(words, env=self.environment, capture_output=True)
                    self.assertEqual((done.returncode, done.stderr[:5]), (2, b"E1409"), done.stderr)
                    self.assertIn(b"?", done.stderr)
                label = (b"note=" + bad) if isinstance(bad, bytes) else "note=" + bad
                done = subprocess.run([BIN / "ration", "run", NODE, "--label", label, "--", "true"], env=self.environment, capture_output=True)
                self.assertEqual((done.returncode, done.stderr[:5]), (2, b"E1415"), done.stderr)
        self.refused(2, "E1607", "split", NODE, "0", "--into", "2", "--names", "a,b\u202e")
        self.holding("训练", "1GiB", "--tenant", "研究")
        self.assertIn("研究/训练", self.ration("ps", NODE).stdout)

    def test_what_stands_in_a_book_is_shown_without_what_a_terminal_obeys(self):
        self.holding("abcdef", "1GiB", "--label", "note=x")
        (path,) = (self.folder / "books").iterdir()
        with open(path, "r+b") as book:
            book.seek(book.read().index(b"abcdef\0"))
            book.write(b"a\xc2\x9bJ\xe2\x80\0")
        text = self.ration("ps", NODE).stdout
        self.assertIn("a?J??", text)
        self.assertNotIn("\u009b", text)

    def test_a_guarantee_can_be_taken_away(self):
        self.holding("one", "100MiB", "--guarantee", "4GiB")
        self.refused(2, "E1102", "set", "one", NODE, "--guarantee", "unlimited")
        self.refused(2, "E1102", "run", NODE, "--guarantee", "unlimited", "--", "true")
        self.refused(2, "E1105", "set", "one", NODE, "--guarantee", "0.5B")
        self.assertEqual(self.ration("set", "one", NODE, "--guarantee", "max").stdout, "one: guarantee 4.00 GiB → 16.0 GiB on GPU 0 (now).\n")
        for word in ("none", "0", "0B", "0MiB"):
            with self.subTest(word=word):
                self.assertEqual(self.ration("set", "one", NODE, "--guarantee", "1GiB").returncode, 0)
                self.assertEqual(self.document("ps", "ps", NODE, "-o", "json")["data"][0]["guarantee_bytes"], 1 << 30)
                done = self.ration("set", "one", NODE, "--guarantee", word)
                self.assertEqual((done.returncode, done.stdout), (0, "one: guarantee 1.00 GiB → 0 B on GPU 0 (now).\n"), done.stderr)
                self.assertEqual(self.document("ps", "ps", NODE, "-o", "json")["data"][0]["guarantee_bytes"], 0)

    def test_how_long_it_rests_is_not_known_where_no_daemon_watches(self):
        self.holding("one", "100MiB")
        row = self.document("ps", "ps", NODE, "-o", "json")["data"][0]
        self.assertEqual((row["idle_seconds"], row["idle_seconds_na"]), (None, "no daemon has observed it yet"))
        self.assertEqual(self.document("ps", "ps", NODE, "--filter", "idle > 1h", "-o", "json")["data"], [])

    def test_a_simulated_node_needs_a_folder(self):
        self.assertIn("No such file", self.refused(1, "E1417", "explain", NODE, env={"RATION_SIM_DIR": "/proc/nowhere"}))

    def test_bad_limits(self):
        for limit, code, error in (("0", 2, "E1101"), ("0GiB", 2, "E1105"), ("-1GiB", 2, "E1102"), ("4096", 2, "E1101"), ("50%%", 2, "E1102"),
                                   ("0.5", 2, "E1103"), ("60GiB", 2, "E1104"), ("5 gigs", 2, "E1102"), ("32MiB", 2, "E1204"), ("1MiB", 2, "E1105"),
                                   ("101%", 2, "E1104"), ("nan GiB", 2, "E1102"), ("1e9GiB", 2, "E1102"), ("99999999999999999999GiB", 2, "E1104"),
                                   ("max-99GiB", 2, "E1104"), ("", 0, None)):
            with self.subTest(limit=limit):
                if error:
                    self.refused(code, error, "run", NODE, f"--limit={limit}", "--", "true")
                else:
                    self.assertEqual(self.ration("run", NODE, "--", "true").returncode, 0)
        self.assertEqual(os.listdir(self.folder / "books"), [name for name in os.listdir(self.folder / "books") if name.startswith("true")])

    def test_a_fix_for_a_limit_of_nothing_is_a_limit(self):
        self.assertNotIn("0MiB", self.refused(2, "E1101", "run", NODE, "--limit", "0", "--", "true"))
        self.holding("w", "1GiB", "--limit", "4GiB")
        self.assertIn("100 GiB less than the limit 4.00 GiB leaves no memory", self.refused(2, "E1105", "set", "w", NODE, "--limit", "-100GiB"))
        self.assertEqual(self.ration("set", "w", NODE, "--limit", "-1GiB").returncode, 0)

    def test_the_fix_for_a_number_without_a_unit_is_a_size_that_means_the_same(self):
        self.holding("w", "1GiB", "--limit", "4GiB")
        for words, number, unit in ((("run", NODE), "5000000000", "B"), (("run", NODE), "600", "MiB"), (("set", "w", NODE, "--dry-run"), "-2", "GiB"), (("set", "w", NODE, "--dry-run"), "+5", "GiB")):
            program = ("--", "true") if words[0] == "run" else ()
            said = self.refused(2, "E1101", *words, f"--limit={number}", *program)
            self.assertIn(f"'{number}' has no unit", said)
            self.assertIn(f"Write {number}{unit}", said)
            self.assertEqual(self.ration(*words, f"--limit={number}{unit}", *program).returncode, 0, number)
        self.assertNotIn("MiB", self.refused(2, "E1101", "run", NODE, "--limit", "99999999999999999999999", "--", "true"))
        self.assertIn("limit 103 GiB is more than GPU 0 has (16.0 GiB)", self.refused(2, "E1104", "set", "w", NODE, "--limit", "+99GiB"))
        self.assertIn("99GiB is more than the GPU has (16.0 GiB)", self.refused(2, "E1104", "run", NODE, "--limit", "max-99GiB", "--", "true"))
        self.assertIn("99999999TiB is more than any GPU has", self.refused(2, "E1104", "fits", NODE, "99999999TiB"))

    def test_letters_of_an_input_method_and_lost_hyphens_are_answered_with_what_was_meant(self):
        for typed in ("４ＧｉＢ", "4GiB，", "＝4GiB", "4 GiB", "“4GiB”", "4GiB。", "4GiB\u3000"):
            self.assertIn("Write 4GiB, without spaces, commas, quotes or full-width letters.", self.refused(2, "E1102", "run", NODE, "--limit", typed, "--", "true"))
        self.assertIn("Sizes look like", self.refused(2, "E1102", "run", NODE, "--limit", "四GiB", "--", "true"))
        for dash in ("——", "—", "–"):
            self.assertIn(f"'{dash}' is a long or full-width dash, not two hyphens.\n      ration run {NODE} --limit 4GiB -- true", self.refused(2, "E1402", "run", NODE, "--limit", "4GiB", dash, "true"))
        for size in ("4 GiB", "1.5 GB", "50 %"):
            self.assertIn(f"ration set train --limit {size.replace(' ', '')}", self.refused(2, "E1001", "set", "train", "--limit", *size.split()))
        self.assertIn("Use --gpu 0,1", self.refused(2, "E1407", "run", NODE, "--gpu", "0，1", "--limit", "4GiB", "--", "true"))
        self.assertIn("write -- before the program's own words", self.refused(2, "E1001", "inject", "docker", "--limit", "4GiB", "run", "--gpus", "all", "IMAGE"))
        for typed, words in (("-limit", ("-limit", "4GiB")), ("-limit=4GiB", ("-limit=4GiB",)), ("——limit", ("——limit", "4GiB")), ("–limit", ("–limit", "4GiB")),
                             ("--limit＝4GiB", ("--limit＝4GiB",)), ("--limit\u30004GiB", ("--limit\u30004GiB",))):
            self.assertIn(f"'{typed}' is not an option. Did you mean '--limit'?", self.refused(2, "E1001", "run", NODE, *words, "--", "true"))
            self.assertIn("Did you mean '--limit'?", self.refused(2, "E1001", "set", "w", NODE, *words))
        self.assertEqual(self.ration("run", NODE, "-l", "4GiB", "--", "true").returncode, 0)
        self.assertEqual(self.ration("run", NODE, "-l4GiB", "--", "echo", "-limit", "——limit").returncode, 0)

    def test_wide_letters_take_two_columns_of_a_table(self):
        self.holding("训练任务", "1GiB", "--limit", "4GiB")
        for locale in ({"LC_ALL": "C.UTF-8"}, {"LC_ALL": "", "LC_CTYPE": "", "LANG": "xx_YY.UTF-8"}):  # one that no machine has
            header, row = self.ration("ps", NODE, env=locale).stdout.splitlines()[1:3]
            before = re.match(r"\S+ +\d+ +(?=0 )", row)[0]
            self.assertEqual(sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in before), header.index("GPU"), row)

    def test_a_python_file_as_the_program_is_answered_with_python(self):
        (self.folder / "train.py").write_text("print(1)\n")
        done = self.ration("run", NODE, "--limit", "1GiB", "--", "train.py", cwd=self.folder)
        self.assertEqual(done.returncode, 127)
        self.assertIn("-- python train.py ?", done.stderr)

    def test_the_text_of_a_wrong_name_names_what_is_rejected(self):
        self.assertIn("double quotes", self.refused(2, "E1409", "run", NODE, "--name", 'a"b', "--", "true"))
        self.assertEqual(self.ration("run", NODE, "--name", "a'b", "--", "true").returncode, 0)

    def test_a_name_is_no_number_of_something_else(self):
        self.assertIn("their tenant is 'default'", self.ration("help", "tenant").stdout)
        for name in ("42", "q-1", "e-7", "d-1-1"):
            self.refused(2, "E1409", "run", NODE, "--name", name, "--", "true")
        self.assertEqual(self.ration("run", NODE, "--name", "d-2", "--", "true").returncode, 0)

    def test_one_is_not_several(self):
        self.assertIn("1 GPU:", self.ration("doctor", NODE, "--only", "gpu.driver").stdout)
        self.assertEqual(self.ration("split", NODE, "0", "--into", "1").returncode, 0)
        self.assertIn("1 slice\n", self.ration("doctor", NODE, "--only", "books.slices").stdout)

    def test_no_word_is_passed_over_by_help_and_doctor(self):
        self.refused(2, "E1422", "help", "resume", "run")
        self.assertIn("ration env --help", self.ration("help", "env").stdout)
        self.assertIn("'enforce.nosuch'", self.refused(2, "E1421", "doctor", NODE, "--only", "gpu.driver,enforce.nosuch"))
        self.assertIn("nothing is left", self.refused(2, "E1421", "doctor", NODE, "--only", "gpu.driver", "--skip", "gpu.driver"))

    def test_bad_devices_and_nodes(self):
        self.refused(3, "E1407", "run", NODE, "--gpu", "7", "--", "true")
        self.refused(3, "E1407", "run", NODE, "--gpu", "GPU-ffff", "--", "true")
        self.refused(2, "E1407", "run", NODE, "--gpu", "0,0", "--", "true")
        self.refused(2, "E1417", "run", "--sim=T5", "--", "true")
        self.refused(2, "E1417", "ps", "--sim=T4:16XiB", "--gpu", "0")

    def test_no_driver_on_the_machine(self):
        if self.ration("fits", "1GiB").returncode != 3:
            self.skipTest("this machine has a GPU")
        self.assertIn("--sim", self.refused(3, "E1403", "run", "--limit", "1GiB", "--", "true"))
        shown = self.ration("ps").stdout
        self.assertRegex(shown, r"no GPU is known: .*\n  .*--sim")
        self.assertNotIn("--limit 4GiB -- python", shown)

    def test_bad_options(self):
        self.assertIn("--limit", self.refused(2, "E1402", "run", "--limt", "4GiB", "--", "true"))
        self.refused(2, "E1402", "run", NODE)
        self.refused(2, "E1408", "run", NODE, "--on-deny", "wait:soon", "--", "true")
        self.refused(2, "E1409", "run", NODE, "--name", "a/b", "--", "true")
        self.refused(2, "E1409", "run", NODE, "--name", "../../x", "--", "true")
        self.refused(2, "E1415", "run", NODE, "--label", "novalue", "--", "true")
        self.refused(2, "E1416", "run", NODE, "--account", "heep", "--", "true")
        self.refused(2, "E1416", "run", NODE, "--managed", "all", "--", "true")
        self.refused(2, "E1418", "run", NODE, "--summary", "loud", "--", "true")
        self.refused(2, "E1305", "run", NODE, "--limit", "1GiB", "--guarantee", "2GiB", "--", "true")
        self.assertIn("'ps'", self.refused(2, "E1001", "pss"))
        self.refused(2, "E1001", "ps", "--outptu", "json")
        self.refused(2, "E1001", "ps", "-o", "yaml")
        self.refused(2, "E1420", "set", "nobody")
        self.refused(3, "E1801", "set", "nobody", "--limit", "1GiB")
        self.refused(3, "E1801", "explain", "nobody")
        for workload in ("x17", "e-1x", "nobody/x"):
            self.refused(3, "E1413", "why", workload)
        for denial in ("d-1", "d-1-", "d--1-2", "d-1-2x", "d-99999999999999999999999-1"):
            self.refused(2, "E1412", "why", denial)
        self.refused(3, "E1413", "why", "d-999-1")
        self.refused(3, "E1422", "help", "untis")
        self.refused(2, "E1423", "completion", "tcsh")
        self.refused(2, "E1421", "doctor", "--only", "nothing")

    def test_programs_that_cannot_start_leave_nothing(self):
        script = self.folder / "train.py"
        script.write_text("print()\n")
        self.refused(127, "E1419", "run", NODE, "--", "/no/such/program")
        told = self.refused(127, "E1419", "run", NODE, "--limit", "1GiB", "--", "CUDA_VISIBLE_DEVICES=0", "TF_X=a b", "python", "a.py")
        self.assertIn("'CUDA_VISIBLE_DEVICES=0' is a variable, not a program.", told)
        self.assertRegex(told, r"Put it before 'ration run': CUDA_VISIBLE_DEVICES=0 TF_X='a b' ration run .*--limit 1GiB -- python a\.py")
        self.refused(126, "E1401", "run", NODE, "--", "/etc/passwd")
        self.assertIn("python " + str(script), self.refused(126, "E1401", "run", NODE, "--", script))
        self.assertEqual(os.listdir(self.folder / "books"), [])

    def test_misspelt_variables_are_named_with_the_nearest(self):
        self.assertIn("RATION_RUNTIME_DIR", self.refused(2, "E1603", "ps", env={"RATION_RUNTIME_DRI": "/tmp"}))
        self.assertIn("RATION_SIM", self.refused(2, "E1603", "ps", env={"RATON_SIM": "T4"}))
        self.assertEqual(self.ration("ps", NODE, env={"RATION_TEAM_NOTES": "mine", "RATION_BIN": "/x"}).returncode, 0, "somebody else's")

    def test_a_runtime_directory_that_cannot_be_used(self):
        (self.folder / "file").write_text("")
        self.refused(125, "E1405", "run", NODE, "--", "true", env={"RATION_RUNTIME_DIR": str(self.folder / "file")})
        self.refused(125, "E1405", "run", NODE, "--", "true", env={"RATION_RUNTIME_DIR": "/proc/none"})
        for verb in (["ps"], ["fits", "1GiB"], ["split"]):
            self.refused(1, "E1405", *verb, NODE, env={"RATION_RUNTIME_DIR": "/proc/none"})

    def test_a_disk_that_is_full(self):
        full = self.folder / "full"
        full.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", full], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("no right to mount a small disk")
        self.addCleanup(subprocess.run, ["umount", full])
        self.refused(125, "E1405", "run", NODE, "--", "true", env={"RATION_RUNTIME_DIR": str(full)})
        self.assertEqual(os.listdir(full / "books"), [])

    def test_ledger_files_that_are_no_books(self):
        (self.folder / "books").mkdir(mode=0o700)
        os.chmod(self.folder, 0o700)
        good = self.ration("run", NODE, "--name", "good", "--", "true")
        self.assertEqual(good.returncode, 0, good.stderr)
        whole = next((self.folder / "books").iterdir()).read_bytes()
        broken = {"truncated": whole[:5000], "empty": b"", "foreign": b"x" * len(whole), "version": whole[:8] + b"\xff\0\0\0" + whole[12:]}
        for name, content in broken.items():
            (self.folder / "books" / f"{name}.book").write_bytes(content)
        self.assertEqual(self.ration("ps", NODE).returncode, 0)
        checks = {row["check"]: row for row in self.document("doctor", "doctor", NODE, "--only", "books", "-o", "json")["data"]}
        self.assertEqual(checks["books.folder"]["result"], "WARN")
        for name in broken:  # a program whose book is unusable is refused all memory, and neither crashes nor hangs
            environment = dict(self.environment, LD_PRELOAD=str(PARTS / "shim/libcuda.so.1"), RATION_SIM="T4:16GiB:context=64MiB",
                               RATION_BOOK=str(self.folder / "books" / f"{name}.book"), RATION_DRIVER_PATH=str(PARTS / "sim"))
            done = subprocess.run([BIN / "ration-workload", "hold", "1MiB"], env=environment, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1, (name, done.stdout, done.stderr))

    def test_two_runs_of_one_name(self):
        self.holding("twin", "100MiB", "--limit", "1GiB")
        self.refused(125, "E1410", "run", NODE, "--name", "twin", "--", "true")

    def test_a_run_inside_a_run_is_no_way_out(self):
        done = self.ration("run", NODE, "--limit", "1GiB", "--", BIN / "ration", "run", NODE, "--limit", "8GiB", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("E1414", done.stderr)

    def test_configuration(self):
        config = self.folder / "ration.toml"
        use = {"RATION_CONFIG": str(config)}
        config.write_text('schema = 1\n[defaults]\nlimit = "2GiB"\non_deny = "wait:1s"\n')
        self.assertIn("limit       2.00 GiB", self.ration("run", NODE, "--dry-run", "--", "true", env=use).stdout)
        self.assertIn("limit       1.00 GiB", self.ration("run", NODE, "--limit", "1GiB", "--dry-run", "--", "true", env=use).stdout, "typed wins")
        for text, part in (('[defaults]\nguarentee = "1GiB"\n', "ration.toml:2:1: unknown key 'guarentee' - did you mean 'guarantee'?"),
                           ("[defaults]\nlimit = 4096\n", "ration.toml:2:1"), ('[defaults]\nlimit = "4096"\n', "no unit"), ("[default]\n", "'defaults'"),
                           ("schema = 2\n", "schema"), ("schema = 7.7e20\n", "schema"), ("x = [", "ration.toml:1")):
            config.write_text(text)
            self.assertIn(part, self.refused(2, "E1601", "run", NODE, "--", "true", env=use))

    def test_config_init_print_validate_path(self):
        own = self.folder / ".config/ration/ration.toml"
        use = {"XDG_CONFIG_HOME": str(self.folder / ".config")}
        self.environment.update(use)
        self.assertIn(f"{own}  not there", self.ration("config", "path").stdout)
        self.assertEqual(self.ration("config", "init", own).stdout, f"{own}: written; no key is set yet\n")
        self.assertIn("exists already", self.refused(2, "E1610", "config", "init", own))
        self.assertEqual(os.listdir(own.parent), ["ration.toml"], "nothing is left beside it")
        self.assertEqual(self.ration("config", "validate").stdout.splitlines()[-1], f"{own}: good")
        own.write_text("broken")
        self.assertEqual(self.ration("config", "init", "--force", own).returncode, 0)
        self.assertIn("[[tenant]]", own.read_text())
        self.assertIn("[daemon]", own.read_text())
        self.refused(5, "E1611", "config", "init", "/proc/none/ration.toml")
        self.assertIn(f"{own}  read", self.ration("config", "path").stdout)
        own.write_text('[defaults]\nlimit = "2GiB"\n[[tenant]]\nname = "nlp"\nguarantee = "1GiB"\n')
        printed = self.ration("config", "print").stdout
        self.assertRegex(printed, rf'\nlimit = "2GiB" +# {own}:2\n')
        self.assertRegex(printed, r'\nlisten = "127.0.0.1:7077" +# default\n')
        self.assertRegex(printed, rf'\n\[\[tenant\]\]\nname = "nlp" +# {own}:4\n')
        again = self.folder / "again.toml"
        again.write_text(printed)
        self.assertEqual(self.ration("config", "validate", again, NODE).stdout, f"{again}: good\n", "what is printed can be read")
        rows = {(row["section"], row["item"], row["key"]): row for row in self.document("config", "config", "print", "-o", "json")["data"]["settings"]}
        self.assertEqual(rows["tenant", "nlp", "guarantee"], {"section": "tenant", "item": "nlp", "key": "guarantee", "value": '"1GiB"',
                         "origin": f"{own}:5", "line": 5, "column": 1})
        self.assertIsNone(rows["daemon", None, "socket"]["line"])
        self.document("config", "config", "path", "-o", "json")
        self.document("config", "config", "init", self.folder / "new/new.toml", "-o", "json")
        self.assertEqual(self.document("config", "config", "validate", own, "-o", "json")["data"]["problems"], [])

    def test_config_validate_names_every_problem(self):
        config = self.folder / "ration.toml"
        config.write_text('[defaults]\nlimit = "4096"\n[[tenant]]\nname = "nlp"\nguarentee = "8GiB"\n[alerts]\nrules = ["guard.lsot"]\n')
        done = self.ration("config", "validate", config)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr.splitlines(), [
            f"E1601 ration: {config}:2:1: '4096' has no unit.", "      Write 4096MiB (TensorFlow's unit), 4GiB, or 50%.",
            f"E1601 ration: {config}:5:1: unknown key 'guarentee' - did you mean 'guarantee'?",
            "      Known here: name, match, guarantee, limit, soft, priority, price",
            f"E1601 ration: {config}:7:10: there is no measure 'guard.lsot' - did you mean 'guard.lost'?",
            "      Known: tenant.used, device.used, device.time_to_full, idle, denials, queue.length, guard.lost"])
        problems = self.document("config", "config", "validate", config, "-o", "json", code=2)["data"]["problems"]
        self.assertEqual([(problem["line"], problem["column"]) for problem in problems], [(2, 1), (5, 1), (7, 10)])
        message = self.refused(2, "E1601", "config", "print", env={"RATION_CONFIG": str(config)})
        self.assertNotIn("can correct this file", message)
        self.assertIn("(2 more: ration config validate)", message)
        self.assertIn("cannot be read", self.refused(2, "E1601", "config", "validate", self.folder / "none.toml"))
        self.assertIn("cannot be read", self.refused(2, "E1601", "config", "print", env={"RATION_CONFIG": "/no/file"}))
        self.refused(2, "E1001", "config")
        self.refused(2, "E1001", "config", "prnit")
        self.refused(2, "E1001", "config", "print", config)

    # ------------------------------------------------------------------------------------------------ promises, slices

    def test_guarantees_beyond_the_device_are_refused_with_what_would_fit(self):
        self.holding("one", "100MiB", "--guarantee", "10GiB")
        message = self.refused(4, "E1304", "run", NODE, "--guarantee", "8GiB", "--", "true")
        self.assertIn("--guarantee 6GiB", message)
        self.assertEqual(self.ration("run", NODE, "--guarantee", "6144MiB", "--", "true").returncode, 0)
        self.refused(4, "E1304", "split", NODE, "0", "--into", "2")
        self.assertIn("E1304", self.ration("set", "one", NODE, "--guarantee", "17GiB").stderr + "E1304")
        self.assertEqual(self.ration("set", "one", NODE, "--guarantee", "12GiB").returncode, 0, "its own guarantee does not stand in its way")
        self.refused(4, "E1304", "run", NODE, "--guarantee", "6144MiB", "--", "true")

    def test_what_is_promised_is_why_something_does_not_fit(self):
        self.assertEqual(self.ration("split", NODE, "0", "--into", "4").returncode, 0)
        text = self.refused(4, "E1302", "fits", NODE, "1GiB")
        self.assertIn("16.0 GiB are free, 16.0 GiB of them kept for", text)
        self.assertNotIn("0MiB", text)

    def test_empty_slices_are_cut_anew(self):
        for into in (4, 2, 3):
            self.assertEqual(self.ration("split", NODE, "0", "--into", into).returncode, 0)
            self.assertEqual(len(self.document("split", "split", NODE, "-o", "json")["data"]), into)

    def test_config_validate_notes_what_can_have_no_effect(self):
        config = self.folder / "ration.toml"
        config.write_text('[daemon]\ntoken_file = "/nonexistent/token"\n[[tenant]]\nname = "all"\nmatch.users = ["*"]\n'
                          '[[tenant]]\nname = "nlp"\nguarantee = "1GiB"\nmatch.groups = ["no-such-group", "root", "ml-*"]\n')
        done = self.ration("config", "validate", config, NODE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines(), [
            f"{config}: good",
            f"note: {config}:9:7: this machine has no group 'no-such-group'", "      getent group   lists the groups of this machine",
            f"note: {config}:9:7: tenant nlp gets no workload by its match: the match at {config}:5 comes first and fits every user",
            "      Write it before the match that fits every user.",
            f"note: {config}:2:1: there is no file /nonexistent/token, and rationd does not start without it",
            "      umask 077; head -c 32 /dev/urandom | base64 > /nonexistent/token"])
        notes = self.document("config", "config", "validate", config, NODE, "-o", "json")["data"]["notes"]
        self.assertEqual([note["line"] for note in notes], [9, 9, 2])
        config.write_text('[[tenant]]\nname = "nlp"\nguarantee = "1GiB"\nmatch.groups = ["root"]\n[[tenant]]\nname = "all"\nmatch.users = ["*"]\n')
        self.assertEqual(self.ration("config", "validate", config, NODE).stdout, f"{config}: good\n")
        self.assertIn("Did you mean 'validate'?", self.refused(2, "E1001", "config", "valdate"))

    def test_a_configuration_that_a_device_cannot_keep_names_the_key(self):
        file = self.folder / "new.toml"
        for key, value, larger in (("keep_free", '"17GiB"', 0), ("slices", '["100GiB"]', 2), ("slices", '["0GiB"]', 2), ("slices", '["12GiB", "8GiB"]', 0)):
            with self.subTest(value=value):
                file.write_text(f'[[device]]\nmatch = "0"\n{key} = {value}\n')
                done = self.ration("config", "validate", NODE, file)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertRegex(done.stderr, rf"E1601 ration: {re.escape(str(file))}:3:\d+: {key} ")
                self.assertEqual(self.ration("config", "validate", "--sim=T4:32GiB", file).returncode, larger)
        file.write_text('[[device]]\nmatch = "0"\nkeep_free = "1GiB"\nslices = ["4GiB", "rest"]\n')
        self.assertEqual(self.ration("config", "validate", NODE, file).returncode, 0)

    def test_a_named_pipe_is_no_configuration(self):
        os.mkfifo(self.folder / "pipe")
        self.assertIn("cannot be read", self.refused(2, "E1601", "config", "validate", self.folder / "pipe"))
        self.assertEqual(self.ration("config", "validate", "/dev/stdin", input="[daemon]\n").returncode, 0)
        self.assertEqual(self.ration("config", "validate", "/dev/stdin", input="[daemn]\n").returncode, 2)
        self.assertIn("init [FILE] | validate [FILE]", self.ration("config", "-h").stdout)

    def test_slices(self):
        self.assertIn("no slices", self.ration("split", NODE).stdout)
        self.refused(4, "E1602", "split", NODE, "0", "--sizes", "10GiB,8GiB")
        self.refused(2, "E1609", "split", NODE, "0", "--into", "2", "--ratio", "1:1")
        self.refused(2, "E1602", "split", NODE, "0", "--ratio", "a:b")
        self.refused(2, "E1602", "split", NODE, "0", "--into", "0")
        self.refused(2, "E1609", "split", NODE, "0", "--names", "a,b")
        self.assertIn("no memory is left for 'rest'", self.refused(2, "E1602", "split", NODE, "0", "--sizes", "20GiB,rest"))
        self.assertEqual(self.ration("split", NODE, "0", "--sizes", "6GiB,4GiB,rest", "--names", "a,b,c").returncode, 0)
        rows = self.document("split", "split", NODE, "-o", "json")["data"]
        self.assertEqual([(row["slice"], row["limit_bytes"]) for row in rows], [("a", 6144 * MIB), ("b", 4096 * MIB), ("c", 6144 * MIB)])
        self.holding("inside", "1GiB", "--slice", "a")
        self.assertIn("inside", self.refused(4, "E1604", "run", NODE, "--slice", "a", "--", "true"))
        self.refused(4, "E1604", "split", NODE, "0", "--off")
        self.refused(3, "E1608", "run", NODE, "--slice", "d", "--", "true")
        self.refused(2, "E1605", "run", NODE, "--slice", "b", "--limit", "1GiB", "--", "true")
        total = self.ration("run", NODE, "--slice", "b", "--", BIN / "ration-workload", "total").stdout
        self.assertEqual(int(total), 4096 * MIB)
        self.refused(4, "E1304", "run", NODE, "--guarantee", "1GiB", "--", "true")
        (self.folder / "slices.json").write_text("{")
        self.refused(2, "E1606", "split", NODE)

    # ---------------------------------------------------------------------------------------------------------- whatif

    HISTORY = SOURCE / "share/ration/traces/medium_512_inference.csv"

    def test_whatif_says_what_a_history_needs_and_what_a_limit_denies(self):
        done = self.ration("whatif", self.HISTORY, "--limit", "1GiB")
        self.assertEqual((done.returncode, done.stderr), (4, ""))
        self.assertIn("at least 1.82 GiB", done.stdout)
        self.assertIn("16.0 MiB on top of 0.99 GiB", done.stdout)
        data = self.document("whatif", "whatif", self.HISTORY, "--limit", "1951309824B", "-o", "json", code=0)["data"]
        row = data["recordings"][0]["answers"][0]
        self.assertEqual((row["allocator"], row["smallest_limit_bytes"], row["grade"], row["fits"]), ("as recorded", 1951309824, "unknown", True))
        self.document("whatif", "whatif", self.HISTORY, "--limit", "1951309823B", "-o", "json", code=4)

    def test_whatif_tries_allocators(self):
        rows = lambda *words: {row["allocator"]: row for row in self.document("whatif", "whatif", self.HISTORY, *words, "-o", "json")["data"]["recordings"][0]["answers"]}
        found = rows("--limit", "2GiB")
        self.assertEqual({name: row["grade"] for name, row in found.items()},
                         {"as recorded": "unknown", "pytorch": "model", "tensorflow": "model", "cuda_malloc_async": "model", "ration": "exact"})
        self.assertEqual({name: row["fits"] for name, row in found.items()},
                         {"as recorded": True, "pytorch": True, "tensorflow": False, "cuda_malloc_async": True, "ration": True})
        self.assertEqual(list(rows("--allocator", "pytorch:expandable_segments:True")), ["as recorded", "pytorch:expandable_segments:True"])
        self.assertEqual(list(rows("--allocator", "none")), ["as recorded"])
        self.refused(2, "E1813", "whatif", self.HISTORY, "--allocator", "torch")

    def test_whatif_puts_runs_side_by_side(self):
        done = self.ration("whatif", self.HISTORY, "--with", self.HISTORY, "--gpu", "3GiB", "--allocator", "none")
        self.assertEqual(done.returncode, 4)
        self.assertIn("together     worst 3.63 GiB", done.stdout)
        self.assertEqual(self.ration("whatif", self.HISTORY, "--with", self.HISTORY, "--gpu", "T4").returncode, 0)
        self.refused(2, "E1814", "whatif", self.HISTORY, self.HISTORY, "--with", self.HISTORY)
        self.refused(2, "E1308", "whatif", self.HISTORY, "--gpu", "T5")

    def test_fits_rejects_a_recording_that_does_not_say_what_it_needs(self):
        self.assertIn("contexts and memory of other libraries are needed in addition", self.refused(2, "E1812", "fits", NODE, "--recording", self.HISTORY))
        self.refused(2, "E1811", "fits", NODE, "--recording", "/nonexistent.rec")
        self.refused(2, "E1001", "fits", NODE)

    def test_whatif_rejects_what_is_no_recording(self):
        self.refused(2, "E1811", "whatif", "/nonexistent.csv")
        self.refused(2, "E1811", "whatif", "/bin/sh")
        self.refused(2, "E1812", "whatif", self.HISTORY, "--limit", "50%")
        self.refused(2, "E1101", "whatif", self.HISTORY, "--limit", "4")

    FITS = ("whatif", "nlp=16GiB:30GiB", "vision=10GiB", "jup=4GiB*6", "--gpu", "A100-40:2")

    def test_whatif_with_sizes_needs_no_gpu_and_shows_what_goes_where(self):
        done = self.ration(*self.FITS)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, """\
needs 50.0 GiB on 78.8 GiB  → fits
  GPU 0  ████████████████▓▓▓▓▓▓▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒▒▒┊·  nlp 16.0 GiB · vision 10.0 GiB · jup×3 12.0 GiB   1.39 GiB spare
  GPU 1  ▒▒▒▒▒▒▒▒▒▒▒▒┊····························  jup×3 12.0 GiB   27.4 GiB spare
note  nlp cannot reach its limit of 30.0 GiB beside the other programs on its GPU (17.4 GiB at most).
""")
        data = self.document("whatif", *self.FITS, "-o", "json")["data"]
        self.assertEqual((data["fits"], data["placement"]["needed_bytes"]), (True, 50 << 30))
        self.assertEqual([row["count"] for row in data["placement"]["gpus"][0]["programs"]], [1, 1, 3])

    def test_whatif_with_sizes_that_do_not_fit_says_how_many_more_gpus_are_enough(self):
        asked = ("whatif", "a=10GiB:unlimited", "b=4GiB*2", "--gpu", "T4:16GiB")
        done = self.ration(*asked)
        self.assertEqual(done.returncode, 4)
        self.assertIn("does not fit", done.stdout)
        self.assertEqual(done.stderr, "E1306 ration: no room for b 4.00 GiB: 18.0 GiB needed, 16.0 GiB available.\n      Add GPUs like the largest one: 1 would be enough.\n")
        placement = self.document("whatif", *asked, "-o", "json", code=4)["data"]["placement"]
        self.assertEqual((placement["more_gpus"], placement["left_over"][0]["name"]), (1, "b"))
        self.assertEqual(self.ration(*asked[:-1], "T4:16GiB*2").returncode, 0, "as it said")

    def test_whatif_with_sizes_on_this_machine_counts_what_is_promised(self):
        self.holding("one", "100MiB", "--guarantee", "10GiB")
        self.assertEqual(self.ration("whatif", NODE, "a=6GiB").returncode, 0)
        self.assertEqual(self.ration("whatif", NODE, "a=7GiB").returncode, 4)

    def test_whatif_takes_recordings_among_sizes(self):
        row = self.document("whatif", "whatif", "a=4GiB", self.HISTORY, "--gpu", "T4", "-o", "json")["data"]["placement"]["gpus"][0]["programs"][1]
        self.assertEqual((row["name"], row["guarantee_bytes"]), ("medium_512_inference", 1862 << 20))

    def test_whatif_and_simulated_node_know_the_same_cards(self):
        known = re.search(r"models: ([\w\- ]+);", self.ration("whatif", "--gpu", "T5", "a=1GiB").stderr).group(1).split()
        self.assertLessEqual({"T4", "V100", "RTX3090", "RTX4090", "A6000", "A10", "L4", "L40S", "A30", "A100-40", "A100-80", "H100", "H200", "B200", "GB10"}, set(known))
        for card in [*known, "rtx 3090", "RTX-4090", "Mine:12GiB", "RTX5090:31.5GiB*2", "A100-40:2"]:
            with self.subTest(card=card):
                asked = self.document("whatif", "whatif", "a=1GiB", "--gpu", card, "-o", "json")["data"]["placement"]["gpus"]
                simulated = self.document("ps", "ps", f"--sim={card}", "-o", "json")["devices"]
                self.assertEqual([gpu["usable_bytes"] for gpu in asked], [device["total_bytes"] for device in simulated])
        told = self.refused(2, "E1417", "ps", "--sim=T5")
        self.assertIn("RTX3090", told)
        self.assertEqual(told.count("there is no model"), 1, told)
        self.assertIn("write T4*16, or T4:16GiB", self.refused(2, "E1417", "ps", "--sim=T4:16"))
        for card in ("Mine:50%", "Mine:max", "Mine:", ":4GiB", "Mine:4", "a\033b:4GiB"):
            self.refused(2, "E1417", "ps", f"--sim={card}")
            self.refused(2, "E1308", "whatif", "a=1GiB", "--gpu", card)

    def test_whatif_rejects_what_is_no_size(self):
        self.refused(2, "E1001", "whatif", "--gpu", "T4")
        for gpu in ("T5", "T4:0", "T4*x", "T4:1XiB*2", ""):
            with self.subTest(gpu=gpu):
                self.assertEqual(self.ration("whatif", "a=1GiB", "--gpu", gpu).returncode, 2)
        self.refused(2, "E1307", "whatif", "=1GiB", "--gpu", "T4")
        self.refused(2, "E1409", "whatif", "a b=1GiB", "--gpu", "T4")
        self.refused(2, "E1307", "whatif", "a=1GiB", "a=2GiB", "--gpu", "T4")
        self.refused(2, "E1305", "whatif", "a=2GiB:1GiB", "--gpu", "T4")
        self.refused(2, "E1101", "whatif", "a=2", "--gpu", "T4")
        self.refused(2, "E1307", "whatif", *(f"t{number}=15GiB*1000" for number in range(200)), "--gpu", "T4*1000")
        self.refused(2, "E1814", "whatif", "a=1GiB", "--limit", "1GiB")
        self.document("whatif", "whatif", "a=1GiB", "--gpu", "T5", "-o", "json", code=2)

    # ------------------------------------------------------------------------------------------------- running, changing

    def test_set_changes_what_runs(self):
        self.holding("w", "1GiB", "--limit", "2GiB")
        row = self.document("change", "set", "w", NODE, "--limit", "3GiB", "-o", "json")["data"]["changes"][0]
        self.assertEqual((row["old_limit_bytes"], row["limit_bytes"], row["shrinking"]), (2048 * MIB, 3072 * MIB, False))
        self.refused(2, "E1104", "set", "w", NODE, "--limit", "17GiB")
        lowered = self.ration("set", "w", NODE, "--limit", "512MiB", stdin=subprocess.DEVNULL)
        self.assertEqual(lowered.returncode, 4)
        self.assertIn("E1205", lowered.stderr)
        self.assertEqual(self.ration("set", "w", NODE, "--limit", "512MiB", "--dry-run").returncode, 0)
        self.assertEqual(self.document("ps", "ps", NODE, "-o", "json")["data"][0]["limit_bytes"], 3072 * MIB, "nothing was changed")
        self.assertEqual(self.ration("set", "w", NODE, "--limit", "512MiB", "--yes").returncode, 0)
        self.assertTrue(self.document("ps", "ps", NODE, "-o", "json")["data"][0]["shrinking"])

    def test_ps_explain_and_fits_agree_with_what_is_held(self):
        self.holding("nlp", "1GiB", "--limit", "2GiB", "--tenant", "research", "--label", "exp=42")
        document = self.document("ps", "ps", NODE, "-o", "json")
        row = document["data"][0]
        self.assertEqual((row["workload"], row["tenant"], row["used_bytes"], row["labels"]), ("nlp", "research", (1024 + 64) * MIB, "exp=42"))
        self.assertEqual(document["devices"][0]["free_bytes"], (16384 - 1088) * MIB)
        account = self.document("explain_workload", "explain", "nlp", NODE, "-o", "json")["data"][0]
        self.assertEqual([process["rows"] for process in account["processes"]], [account["rows"]])
        parts = {part["id"]: part for part in account["rows"]}
        self.assertEqual((parts["allocated"]["bytes"], parts["context"]["bytes"], parts["unexplained"]["bytes"]), (1024 * MIB, 64 * MIB, 0))
        self.assertIsNone(parts["framework_free"]["bytes"], "unknown is null with a reason, never 0")
        self.document("explain_device", "explain", NODE, "-o", "json")
        pid = account["processes"][0]["pid"]
        self.assertEqual(self.document("explain_process", "explain", pid, NODE, "-o", "json")["data"]["accounts"], [account])
        self.assertEqual(self.ration("fits", NODE, "14GiB").stdout, "0\n")
        self.assertEqual(self.document("fits", "fits", NODE, "15GiB", "-o", "json", code=4)["data"]["available_bytes"], (16384 - 1088) * MIB)
        self.assertIn("nlp 1.06 GiB", self.refused(4, "E1302", "fits", NODE, "15GiB"))
        csv = self.ration("ps", NODE, "-o", "csv").stdout.splitlines()
        self.assertEqual(dict(zip(csv[0].split(","), csv[1].split(",")))["used_bytes"], str(1088 * MIB))

    def test_a_filter_that_leaves_nothing_says_what_was_asked_for(self):
        self.holding("nlp", "1GiB", "--limit", "2GiB", "--tenant", "research")
        self.assertIn("no row belongs to tenant 'nosuch'; 1 row belongs to others.", self.ration("ps", NODE, "--tenant", "nosuch").stdout)
        self.assertIn("no row belongs to user 'nosuch'; 1 row belongs to others.", self.ration("ps", NODE, "--user", "nosuch").stdout)
        self.assertIn("nlp", self.ration("ps", NODE, "--tenant", "research").stdout)

    def test_what_never_fits_is_not_waited_for(self):
        never = self.refused(4, "E1104", "fits", NODE, "100GiB")
        self.assertIn("100 GiB never fits: the largest is GPU 0 with 16.0 GiB", never)
        self.assertIn("ration fits", never)
        self.assertNotIn("wait", never)
        self.holding("hog", "1GiB", "--limit", "15GiB", "--guarantee", "15GiB")
        full = self.refused(4, "E1302", "fits", NODE, "4GiB")
        self.assertIn("hog 1.06 GiB (promised 15.0 GiB)", full)
        self.assertIn("1GiB   would", full)

    def test_the_workload_of_the_readme_leaves_what_tensorflow_leaves(self):
        done = self.ration("run", "--sim=T4:16GiB", "--limit", "3GiB", "--name", "grab", "--summary", f"json:{self.folder}/grab.json", "--", BIN / "ration-workload", "grab")
        self.assertEqual(done.returncode, 0, done.stderr)
        peak = json.loads((self.folder / "grab.json").read_text())["accounts"][0]["peak_bytes"]
        self.assertTrue(3 * 1024 - 1050 - 2 <= peak // MIB <= 3 * 1024 - 1050, peak)

    def test_a_tenant_is_explained_over_all_of_its_workloads(self):
        self.holding("train", "1GiB", "--limit", "2GiB", "--tenant", "nlp")
        self.holding("serve", "2GiB", "--limit", "3GiB", "--tenant", "nlp")
        self.holding("nlp", "3GiB", "--limit", "4GiB", "--tenant", "vision")
        device = self.document("explain_tenant", "explain", "--tenant", "nlp", NODE, "-o", "json")["data"]["devices"][0]
        self.assertEqual({each["workload"]: each["used_bytes"] for each in device["workloads"]}, {"train": 1088 * MIB, "serve": 2112 * MIB})
        parts = {row["id"]: row["bytes"] for row in device["rows"]}
        self.assertEqual(parts, {"allocated": 3072 * MIB, "pooled": 0, "managed": 0, "context": 128 * MIB, "framework_free": None, "unrequested": 0, "unexplained": 0})
        self.assertEqual(sum(bytes or 0 for bytes in parts.values()), device["driver_bytes"], "the driver's number")
        self.assertEqual(self.document("explain_workload", "explain", "nlp", NODE, "-o", "json")["data"][0]["used_bytes"], 3136 * MIB, "a workload comes first")
        self.assertIn("tenant vision on GPU 0", self.ration("explain", "vision", NODE).stdout)
        self.refused(3, "E1801", "explain", "--tenant", "nobody", NODE)
        self.refused(2, "E1001", "explain", "nlp", "--tenant", "nlp", NODE)

    def test_what_is_not_governed_is_shown(self):
        environment = dict(self.environment, RATION_SIM="T4:16GiB:context=64MiB", LD_LIBRARY_PATH=str(PARTS / "sim"))
        process = subprocess.Popen([BIN / "ration-workload", "hold", "1GiB"], env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        process.stdout.readline()
        row = self.document("ps", "ps", NODE, "-o", "json")["data"][0]
        self.assertEqual((row["governed"], row["used_bytes"], row["processes"][0]["pid"]), (False, 1088 * MIB, process.pid))
        document = self.document("explain_process", "explain", process.pid, NODE, "-o", "json")
        self.assertEqual(([row["id"] for row in document["warnings"]], document["data"]["devices"]), (["E1807"], [{"gpu": 0, "device": "Tesla T4", "used_bytes": 1088 * MIB}]))
        self.assertIn("is not governed: no limit applies to it", self.ration("explain", process.pid, NODE).stdout)

    def test_a_denial_is_explained(self):
        done = self.ration("run", NODE, "--limit", "1GiB", "--name", "small", "--", BIN / "ration-workload", "hold", "2GiB")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^ration-workload: denied 2\.00 GiB at the start: .* of 1\.00 GiB")
        data = self.document("why", "why", "d-1-1", "-o", "json")["data"]
        self.assertEqual((data["workload"], data["requested_bytes"], data["limit_bytes"]), ("small", 2048 * MIB, 1024 * MIB))
        self.assertIn("--limit 2.5GiB", data["fix"])

    def test_who_fails_right_after_a_refusal_is_started_again_with_more(self):
        program = [BIN / "ration-workload", "steps", "1500MiB:0s"]
        done = self.ration("run", NODE, "--limit", "1GiB", "--retry", "3", "--retry-limit", "+50%", "--", *program)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [line for line in done.stderr.splitlines() if "retry" in line]
        self.assertEqual(len(said), 2, done.stderr)
        self.assertRegex(said[0], r"^ration: denied at 1\.00 GiB \(d-\d+-1\) .* retry 1 of 3 with 1\.50 GiB$")
        self.assertRegex(said[1], r"denied at 1\.50 GiB .* retry 2 of 3 with 2\.25 GiB$")
        # Not more often than it was said, and with the exit code that was asked for.
        done = self.ration("run", NODE, "--limit", "1GiB", "--retry", "1", "--retry-limit", "+100MiB", "--denied-exit", "75", "--", *program)
        self.assertEqual((done.returncode, done.stderr.count("retry ")), (75, 1), done.stderr)
        # Who fails for another reason is not started again, and who was refused and went on neither.
        done = self.ration("run", NODE, "--limit", "1GiB", "--retry", "3", "--denied-exit", "75", "--", "sh", "-c", "exit 9")
        self.assertEqual((done.returncode, "retry" in done.stderr), (9, False), done.stderr)
        done = self.ration("run", NODE, "--limit", "1GiB", "--retry", "3", "--denied-exit", "75", "--", "sh", "-c",
                           f"{BIN}/ration-workload steps 1500MiB:0s; exit 0")
        self.assertEqual((done.returncode, "retry" in done.stderr), (0, False), done.stderr)
        # No more than the device has.
        done = self.ration("run", NODE, "--limit", "12GiB", "--retry", "9", "--retry-limit", "+3GiB", "--", BIN / "ration-workload", "steps", "20GiB:0s")
        self.assertIn("retry 2 of 9 with 16.0 GiB", done.stderr)
        self.assertNotIn("retry 3", done.stderr)
        for step in ("25%", "+", "+0MiB", "+nan", "-1GiB", "+5 gigs"):
            with self.subTest(step=step):
                self.refused(2, "E1311", "run", NODE, "--limit", "1GiB", "--retry", "1", "--retry-limit=" + step, "--", "true")

    def test_growth_and_hints(self):
        sets = lambda *options, **env: self.document("env", "env", NODE, "-o", "json", *options)["data"]["sets"]
        self.assertEqual(sets()["TF_FORCE_GPU_ALLOW_GROWTH"], "true")
        self.assertNotIn("TF_FORCE_GPU_ALLOW_GROWTH", sets("--framework-hints", "off"))
        self.environment["TF_FORCE_GPU_ALLOW_GROWTH"] = "false"
        self.assertNotIn("TF_FORCE_GPU_ALLOW_GROWTH", sets())
        self.assertEqual(sets("--growth", "--limit", "1GiB")["TF_FORCE_GPU_ALLOW_GROWTH"], "true")

    def test_a_program_that_would_escape_is_refused_when_asked(self):
        source = self.folder / "static.c"
        source.write_text("int main(void) { return 0; }\n")
        subprocess.run(["cc", "-static", "-o", self.folder / "static", source], check=True)
        self.refused(6, "E1404", "run", NODE, "--require-enforced", "--", self.folder / "static")
        self.assertEqual(self.ration("run", NODE, "--", self.folder / "static").returncode, 0)
        self.assertEqual(self.ration("run", NODE, "--require-enforced", "--", "/bin/true").returncode, 0)

    def environment_with(self, *libraries):
        """A Python environment in which those files lie, as pip puts them; its interpreter."""
        prefix = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (prefix / "bin").mkdir()
        (prefix / "bin/python").symlink_to("/bin/sh")
        for library in libraries:
            path = prefix / "lib/python3.11/site-packages/nvidia" / library
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return prefix / "bin/python"

    def test_the_simulated_runtime_is_of_the_version_that_the_program_has(self):
        def sets(*arguments):
            document = self.document("sim", "sim", "env", "--sim=T4", "-o", "json", *arguments)["data"]
            return document["simulation"], [pathlib.Path(path).name for path in document["sets"].get("LD_PRELOAD", "").split(":") if path]
        both = ["libcudart.so.%d", "libcublasLt.so.%d", "libcublas.so.%d", "libcupti.so.%d"]
        fft_and_solver = ["libcufft.so.%d", "libcusolver.so.%d"]   # one behind the others
        same = ["libcudnn.so.9", "libcurand.so.10", "libcusparse.so.12", "libnccl.so.2", "libration_sim_open.so.1"]
        def all_of(*versions):
            return sorted([name % n for name in both for n in versions] + [name % (n - 1) for name in fft_and_solver for n in versions] + same)
        twelve = self.environment_with("cuda_runtime/lib/libcudart.so.12", "cublas/lib/libcublas.so.12")
        found, preload = sets("--", twelve)
        self.assertEqual(sorted(preload), all_of(12, 13))
        self.assertEqual([preload.index(name % 12) < preload.index(name % 13) for name in both], [True] * 4, "its own first")
        self.assertIn(f"CUDA 12, as in {twelve.parent.parent}", found)
        thirteen = self.environment_with("cu13/lib/libcudart.so.13")
        preload = sets("--", thirteen)[1]
        self.assertEqual(sorted(preload), all_of(12, 13))
        self.assertEqual(preload[0], "libcudart.so.13", "the others need it")
        self.assertEqual(sorted(sets("--sim-cuda", "12", "--", thirteen)[1]), all_of(12))
        mixed = self.environment_with("cu13/lib/libcudart.so.13", "cuda_runtime/lib/libcudart.so.12")
        self.assertEqual(sorted(sets("--", mixed)[1]), all_of(12, 13))
        self.assertEqual(sets("--sim-cuda", "none", "--", thirteen), ("the driver alone", []))
        self.environment.update(VIRTUAL_ENV=str(thirteen.parent.parent))
        self.assertIn("CUDA 13", sets()[0], "of the active environment")
        self.environment.pop("VIRTUAL_ENV")
        without = self.environment_with()
        self.assertIn("no CUDA runtime in", sets("--", without)[0])
        plan = self.document("run", "run", NODE, "--limit", "1GiB", "--dry-run", "-o", "json", "--", thirteen)
        self.assertIn("CUDA 13", plan["data"]["simulation"])
        self.assertLess(plan["data"]["sets"]["LD_PRELOAD"].index("shim/libcuda.so.1"), plan["data"]["sets"]["LD_PRELOAD"].index("libcudart.so.13"))
        eleven = self.environment_with("cuda_runtime/lib/libcudart.so.11.0")
        self.assertIn("is version 11, which is not simulated", self.refused(2, "E1425", "run", NODE, "--limit", "1GiB", "--", eleven))
        self.refused(2, "E1425", "sim", "env", "--sim-cuda", "14")
        for wrong in ("twelve", "12,", "-1", "12.4", "99999"):
            self.refused(2, "E1426", "sim", "env", "--sim-cuda=" + wrong)
        self.refused(2, "E1417", "sim", "env", "--sim=Q9")
        self.refused(2, "E1001", "sim")
        self.refused(2, "E1001", "sim", "environment")

    def program_of(self, version):
        """A virtual environment whose program tells the version of the CUDA runtime that it got; its own one, which its run path
        names as the frameworks' wheels do, says -1."""
        prefix = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        libraries = prefix / "lib/python3.11/site-packages/nvidia/runtime/lib"
        for folder in (libraries, prefix / "bin"):
            folder.mkdir(parents=True)
        name = f"libcudart.so.{version}"
        (prefix / "own.c").write_text("int cudaRuntimeGetVersion(int* out) { *out = -1000; return 0; }\n")
        (prefix / "names.map").write_text(f"{name} {{ global: cuda*; local: *; }};\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", libraries / name, prefix / "own.c", f"-Wl,-soname,{name}",
                        f"-Wl,--version-script,{prefix}/names.map"], check=True)
        (prefix / "main.c").write_text("#include <stdio.h>\nint cudaRuntimeGetVersion(int*);\n"
                                       "int main(void) { int version = 0; cudaRuntimeGetVersion(&version); return !printf(\"%d\\n\", version / 1000); }\n")
        subprocess.run(["cc", "-o", prefix / "bin/python", prefix / "main.c", f"-L{libraries}", f"-l:{name}",
                        f"-Wl,--disable-new-dtags,-rpath,{libraries}"], check=True)
        (prefix / "bin/train").write_text(f"#!{prefix}/bin/python\n")
        (prefix / "bin/train").chmod(0o755)
        return prefix / "bin/python"

    def test_a_launcher_starts_programs_of_any_cuda_version(self):
        twelve, thirteen = self.program_of(12), self.program_of(13)
        for told, *command in (("12", twelve), ("13", thirteen), ("12\n13", "bash", "-c", f"{twelve}; {thirteen}"),
                               ("12", "env", "ANSWER=42", twelve), ("13", "timeout", "60", thirteen), ("12", twelve.parent / "train"),
                               ("13", "env", f"VIRTUAL_ENV={thirteen.parent.parent}", "sh", "-c", f"exec {thirteen}")):
            done = self.ration("run", NODE, "--limit", "1GiB", "--", *command)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, told + "\n", ""), command)
        # Told otherwise it is that one alone, whatever is asked for.
        done = self.ration("run", NODE, "--sim-cuda", "13", "--limit", "1GiB", "--", "bash", "-c", str(twelve))
        self.assertEqual(done.stdout, "-1\n", "the one of its own")

    def test_the_path_of_a_cuda_library_opens_the_simulated_one(self):
        """vLLM opens the libcudart that it finds in /proc/self/maps, others one of a wheel or of a toolkit, by its path."""
        python = self.program_of(13)
        libraries = python.parent.parent / "lib/python3.11/site-packages/nvidia/runtime/lib"
        (libraries / "libcudart.so.13").rename(libraries / "libcudart.so.13.0.96")
        for link in ("libcudart.so.13", "libcudart.so", "libcudart_of_another.so"):
            (libraries / link).symlink_to("libcudart.so.13.0.96")
        carried = ("libcudart.faf08d9a.so.13", "libcudart-faf08d9a.so.13.0.96")    # as a repaired wheel renames what it carries
        for name in carried:
            shutil.copy(libraries / "libcudart.so.13.0.96", libraries / name)
        shutil.copy(libraries / "libcudart.so.13.0.96", libraries / "libcunknown.so.1")
        main = python.parent / "main.c"
        main.write_text("""
            #include <dlfcn.h>
            #include <stdio.h>
            #include <stdlib.h>
            int main(int count, char** files) {
              for (int i = 1; i < count; ++i) {
                int version = 0, (*get)(int*) = 0;
                void* library = dlopen(files[i], RTLD_NOW | (getenv("NOLOAD") ? RTLD_NOLOAD : 0));
                if (library) get = (int (*)(int*))dlsym(library, "cudaRuntimeGetVersion");
                printf("%d ", get && get(&version) == 0 ? version / 1000 : 0);
              }
              return 0;
            }""")
        program = python.parent / "opens"
        subprocess.run(["cc", "-o", program, main, "-ldl", f"-Wl,-rpath,{libraries.parent}/found_by_the_program"], check=True)
        (libraries.parent / "found_by_the_program").mkdir()
        shutil.copy(libraries / "libcudart.so.13.0.96", libraries.parent / "found_by_the_program/libcuown.so.1")
        def opened(*files, **variables):
            done = self.ration("run", NODE, "--limit", "1GiB", "--", program, *files, env=variables, cwd=libraries)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return [int(version) for version in done.stdout.split()]
        names = ("libcudart.so.13.0.96", "libcudart.so.13", "libcudart.so")
        self.assertEqual(opened(*[libraries / name for name in names], *names), [13] * 6)
        self.assertEqual(opened(*[libraries / name for name in carried]), [13] * 2)
        self.assertEqual(opened(libraries / "libcudart.so.13", NOLOAD="yes"), [13], "it is loaded")
        self.assertEqual(opened("./libcudart.so.13", "../lib/libcudart_of_another.so"), [13, 13])
        self.assertEqual(opened(libraries / "libcunknown.so.1", "libcuown.so.1"), [-1, -1], "no library of the simulator has that name")
        self.assertEqual(opened(libraries / "libcudart.so.14", "libcunobody.so"), [0, 0], "there is no such file")

    def test_another_driver_on_the_machine_is_not_asked(self):
        other = self.folder / "other"
        other.mkdir()
        (other / "libcuda.so.1").write_text("whoever loads this fails")
        self.environment["LD_LIBRARY_PATH"] = str(other)
        job = [str(BIN / "ration-workload"), "grab", "--steady", "0.1GiB", "--peak", "0.2GiB", "--quiet"]
        self.assertEqual(self.ration("run", NODE, "--limit", "1GiB", "--", *job).returncode, 0)
        lines = self.ration("sim", "env", NODE).stdout
        done = subprocess.run(["sh", "-c", lines + '\nexec "$@"', "sh", *job], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run(job, env=self.environment, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0, "the other driver would have failed")

    def test_dry_run_does_nothing(self):
        data = self.document("run", "run", NODE, "--limit", "1GiB", "--dry-run", "-o", "json", "--", "touch", self.folder / "touched")["data"]
        self.assertEqual(data["accounts"][0]["limit_bytes"], 1024 * MIB)
        self.assertFalse((self.folder / "touched").exists())
        self.assertEqual(os.listdir(self.folder / "books"), [])

    def test_a_failure_after_a_denial_is_told_in_a_pipe_too(self):
        take = f"{BIN}/ration-workload hold 2GiB < /dev/null; exit"
        for code, shown in (("3", True), ("0", False)):
            done = self.ration("run", NODE, "--limit", "1GiB", "--", "sh", "-c", f"{take} {code}")
            self.assertEqual((done.returncode, "1 denied · GPU 0 Tesla T4 · ration why" in done.stderr), (int(code), shown), done.stderr)
        done = self.ration("run", NODE, "--limit", "1GiB", "--", "sh", "-c", "exit 3")
        self.assertEqual((done.returncode, done.stderr), (3, ""))
        done = self.ration("run", NODE, "--limit", "1GiB", "--summary", "never", "--", "sh", "-c", f"{take} 3")
        self.assertNotIn("denied ·", done.stderr)

    def test_summary_as_a_file(self):
        path = self.folder / "run.json"
        self.ration("run", NODE, "--limit", "1GiB", "--summary", f"json:{path}", "--", BIN / "ration-workload", "probe", "64")
        summary = json.loads(path.read_text())
        jsonschema.validate(summary, json.loads((SOURCE / "share/ration/schema/summary.json").read_text()))
        self.assertEqual((summary["exit_code"], summary["accounts"][0]["peak_bytes"]), (0, 1024 * MIB))

    def test_json_stays_json_when_a_command_fails(self):
        for verb, *arguments in (("fits", NODE, "99"), ("why", "d-9-9"), ("set", "x", "--limit", "1GiB"), ("explain", "nobody", NODE)):
            done = self.ration(verb, *arguments, "-o", "json")
            document = json.loads(done.stdout)
            jsonschema.validate(document, json.loads((SOURCE / "share/ration/schema" / f"{verb}.json").read_text()))
            self.assertEqual(document["error"]["exit_code"], done.returncode)

    # --------------------------------------------------------------------------------------------- manners of a good host

    def test_signals_and_standard_input_pass_through(self):
        self.assertEqual(self.ration("run", NODE, "--", "cat", input="through\n").stdout, "through\n")
        trap = "trap 'echo caught; exit 9' TERM; echo ready; while :; do read -t 0.05 x || sleep 0.01; done"  # a trap waits for the end of a read
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--", "bash", "-c", trap], env=self.environment, stdout=subprocess.PIPE,
                                   stdin=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), "caught\n")
        process.stdin.close()
        process.stdout.close()
        self.assertEqual(process.wait(60), 9)

    def test_the_terminal_is_the_programs_and_the_closing_line_comes_on_it(self):
        leader, follower = pty.openpty()
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--limit", "1GiB", "--", "sh", "-c", "test -t 0 && test -t 1 && echo terminal"],
                                   env=self.environment, stdin=follower, stdout=follower, stderr=follower)
        process.wait(60)
        os.close(follower)
        text = os.read(leader, 65536).decode()
        os.close(leader)
        self.assertIn("terminal", text)
        self.assertRegex(text, r"ration: sh -c .* · 0s · peak 0 B of 1\.00 GiB \(0%\) · 0 denied · GPU 0 Tesla T4")

    def test_a_daemon_reads_the_file_that_was_named(self):
        (self.folder / "own.toml").write_text('[[tenant]]\nname = "nlp"\nlimit = "9GiB"\n')
        process = subprocess.Popen([BIN / "ration", "serve", NODE, "--config", "own.toml", "--listen", ""], env=self.environment, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        waiting.until(lambda: self.ration("explain", "--tenant", "nlp", NODE).returncode == 0, "the daemon knows its tenant")
        self.assertIn("own.toml cannot be read", self.refused(2, "E1601", "serve", NODE, "--config", self.folder / "no-own.toml"))

    def on_a_terminal(self, columns, *words):
        """The lines that ration prints on a terminal of so many columns."""
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([BIN / "ration", *words], env=self.environment, stdin=subprocess.DEVNULL, stdout=follower, stderr=subprocess.PIPE)
        os.close(follower)
        text = b""
        try:
            while more := os.read(leader, 65536):
                text += more
        except OSError:  # the other end is closed
            pass
        os.close(leader)
        self.assertEqual((process.wait(60), process.stderr.read()), (0, b""))
        process.stderr.close()
        return re.sub(r"\x1b\[[0-9;]*m", "", text.decode()).splitlines()

    def test_on_a_narrow_terminal_no_number_is_broken(self):
        for name, size in (("a-training-with-a-long-name-of-its-own", "1GiB"), ("serve", "1536MiB"), ("größtes-modell", "2GiB")):
            self.holding(name, size)
        self.ration("run", NODE, "--name", "serve-too", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
        wide = self.on_a_terminal(250, "ps", NODE)
        self.assertEqual(wide, self.ration("ps", NODE).stdout.splitlines())
        shown = {}
        for columns in (44, 60, 80, 100, 120):
            lines = shown[columns] = self.on_a_terminal(columns, "ps", NODE)
            self.assertLessEqual(max(len(line) for line in lines[1 if columns < 60 else 0:] if "ration " not in line), columns, lines)  # commands are whole, to be copied
            text = " ".join(lines)
            for number in ("1.06 GiB", "1.56 GiB", "2.06 GiB"):
                self.assertIn(number, text, columns)
        self.assertIn("GOVERNED", shown[80][1])
        self.assertNotIn("PEAK", shown[60][1])
        self.assertIn("…", " ".join(shown[44]))

    def test_no_colour_where_it_is_not_wanted(self):
        self.assertNotIn("\033", self.ration("doctor", "--only", "enforce.glibc").stdout)
        self.assertIn("\033", self.ration("doctor", "--only", "enforce.glibc", "--color", "always").stdout)
        self.assertIn("\033", self.ration("doctor", "--only", "enforce.glibc", env={"CLICOLOR_FORCE": "1"}).stdout)
        self.assertNotIn("\033", self.ration("doctor", "--only", "enforce.glibc", env={"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}).stdout)
        self.holding("full", "960MiB", "--limit", "1GiB")
        self.assertIn("\033", self.ration("ps", NODE, "--color", "always").stdout)
        self.assertNotIn("\033", self.ration("ps", NODE, "--color", "always", "-o", "csv").stdout, "colours are not for programs")

    def test_doctor_names_one_cause_where_there_is_no_gpu(self):
        environment = {"RATION_DRIVER_PATH": str(self.folder)}
        rows = {row["check"]: row for row in self.document("doctor", "doctor", "-o", "json", "--probe", env=environment, code=1)["data"]}
        self.assertEqual([check for check, row in rows.items() if row["result"] in ("FAIL", "WARN")], ["gpu.driver"], rows)
        for check in ("cuda.context", "enforce.preload", "enforce.functions", "mem.ungoverned", "mem.orphaned", "suspend.tried", "enforce.probe"):
            self.assertEqual((rows[check]["result"], rows[check]["message"], rows[check]["fix"]), ("SKIP", "not checked: no GPU", ""))
        self.assertIn(" · 1 fail · 8 not checked", self.ration("doctor", "--probe", env=environment).stdout)
        self.assertIn("ration doctor --only gpu.driver", self.ration("doctor", "--only", "mem.orphaned", env=environment).stdout)

    def test_doctor_leaves_nothing(self):
        self.assertEqual(self.ration("doctor", NODE, "--probe").returncode, 0)
        self.assertEqual(list((self.folder / "books").iterdir()), [])
        self.assertEqual(list(self.folder.glob("doctor-*")), [])
        nodes = [path for path in self.folder.iterdir() if path.is_dir() and path.name.isdigit()]
        self.assertEqual(len(nodes), 1, "only the node of --sim")

    def test_doctor_probes_every_way(self):
        rows = {row["check"]: row for row in self.document("doctor", "doctor", NODE, "--probe", "-o", "json")["data"]}
        self.assertEqual([row for row in rows.values() if row["result"] == "FAIL"], [])
        self.assertGreaterEqual(int(rows["enforce.probe"]["message"].split()[0]), 73)

    def test_no_helper_reads_what_was_typed_for_somebody_else(self):
        """Programs that a verb starts on its own account: they may be old, wrong or ask something; the terminal is not theirs."""
        tools = self.folder / "tools"
        tools.mkdir()
        for name in ("python3", "systemd-run", "systemctl"):
            (tools / name).write_text(f'#!/bin/sh\necho "{name} $(readlink /proc/$$/fd/0)" >> {self.folder}/inputs\nread -r line\nexit 1\n')
            (tools / name).chmod(0o755)
        for helper, words in (("python3", "jupyter list"), ("systemd-run", "run --sim=T4 --scope -- true"), ("systemctl", "service status --user")):
            with self.subTest(words=words):
                (self.folder / "inputs").write_text("")
                terminal, own = pty.openpty()
                os.write(terminal, b"typed ahead\nand more\n" * 20)
                shell = f'{BIN}/ration {words} > {self.folder}/said 2>&1; read -r line; echo "$line"'
                done = subprocess.run(["sh", "-c", shell], env=dict(self.environment, PATH=f"{tools}:{self.environment['PATH']}", XDG_RUNTIME_DIR=str(self.folder)),
                                      stdin=own, stdout=subprocess.PIPE, text=True, start_new_session=True, timeout=120)
                os.close(own), os.close(terminal)
                self.assertEqual(done.stdout, "typed ahead\n", (self.folder / "said").read_text())
                self.assertEqual(set((self.folder / "inputs").read_text().splitlines()), {f"{helper} /dev/null"}, (self.folder / "said").read_text())

    # ---------------------------------------------------------------------------------------------------------- the help

    def test_every_error_in_the_source_is_explained_and_has_a_fix(self):
        used = set()
        for path in (path for folder in ("src", "libration", "sim/workload") for path in (SOURCE / folder).rglob("*.cpp")):
            text = path.read_text()
            if path.name in ("error_summaries.cpp", "trace.cpp"):  # a trace is read by ration-workload only
                continue
            used |= set(re.findall(r'"(E\d{4})', text)) | set(re.findall(r"(E\d{4}) ration:", text))
        explained = set(re.findall(r'\{"(E\d{4})"', (SOURCE / "src/cli/text/error_summaries.cpp").read_text()))
        self.assertEqual(used, explained)
        for error in sorted(explained):
            self.assertRegex(self.ration("help", error).stdout, r"what to do: \S")

    def test_help_manual_and_completion_know_the_same_verbs_and_options(self):
        verbs = re.search(r"Verbs: (.*)", self.ration().stdout).group(1).split()
        pages = self.folder / "man"
        self.assertEqual(self.ration("manual", pages).returncode, 0)
        for verb in verbs:
            options = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", self.ration(verb, "--help").stdout, re.M))
            page = (pages / "man1" / f"ration-{verb}.1").read_text().replace("\\-", "-")
            self.assertEqual({option for option in options if option not in page}, set(), verb)
            offered = {line.split("\t")[0] for line in self.ration("candidates", "--", verb, "--").stdout.splitlines()}
            self.assertEqual(options - offered, set(), verb)
            checked = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", pages / "man1" / f"ration-{verb}.1"], capture_output=True, text=True)
            self.assertEqual(checked.stderr, "", verb)
        page = pages / "man5/ration.toml.5"
        checked = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-P-c", page], capture_output=True, text=True)
        self.assertEqual(checked.stderr, "")
        shown = re.sub(".\b", "", checked.stdout)  # without what makes it bold
        for key in re.findall(r"^#? ?([a-z_.]+) = ", self.initial_configuration(), re.M):
            self.assertIn(key.removesuffix(".nlp").removesuffix(".team"), shown)
            self.assertIn(key.removesuffix(".nlp").removesuffix(".team"), self.ration("help", "config").stdout)
        offered = [line.split("\t")[0] for line in self.ration("candidates", "--", "").stdout.splitlines()]
        self.assertEqual(offered, verbs)

    def test_every_topic_and_schema_is_printed(self):
        topics = re.findall(r"^  ration help (\S+)", self.ration("help").stdout, re.M)
        self.assertGreater(len(topics), 3)
        for topic in topics:
            self.assertGreater(len(self.ration("help", topic).stdout), 100, topic)
        for path in (SOURCE / "share/ration/schema").iterdir():
            self.assertEqual(json.loads(self.ration("help", "schema", path.stem).stdout), json.loads(path.read_text()))


if __name__ == "__main__":
    unittest.main()
