#!/usr/bin/env python3
"""NVIDIA's own user-space drivers answer behind the guard what they answer without it: every look-up of a function in every version, and every
call on a machine that has no card."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from drivers import BUILD, DRIVERS, GUARD, HERE, NONE_HERE, ROOM, SOURCE, bare, compile_c, exported, governed

sys.path.insert(0, str(SOURCE / "tests/system/limits"))

TABLE = [line.split("\t") for line in (SOURCE / "src/driver/driver_api.tsv").read_text().splitlines() if not line.startswith("#")]
HOOKED = {row[0] for row in TABLE if row[4] == "hook"}
# Below, between and above those that change what a name means.
VERSIONS = ["0", "1", *sorted({row[2] for row in TABLE if row[2] != "0"}, key=int), "99999"]
NO_DEVICE = 100
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# Calls that end a process without the guard. Behind it the same, or an error: 555 reads through a null pointer before it looks for a card, and the guard asks it for the card first.
CRASHES = {"cuCtxCreate_v4"}


def functions(driver):
    return {name for name, kind in exported(driver / "libcuda.so.1").items() if kind == "T"}


def is_error_for_a_crash(case, answer, behind):
    return case.split()[0] in CRASHES and str(answer).startswith("ended by") and isinstance(behind, list) and behind[0] != 0


class Answers(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.lookups = pathlib.Path(scratch.name) / "lookups"
        done = compile_c(ROOM / "lookups.c", cls.lookups)
        assert done.returncode == 0, done.stderr
        cls.environments = {"governed": cls.enterClassContext(governed()), "enforced": cls.enterClassContext(governed("--require-enforced"))}

    def run_in(self, environment, *words, given=""):
        done = subprocess.run(words, input=given, env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout

    def look_up(self, environment, names):
        """What each line says: {name and way: [answer of each version]}."""
        lines = self.run_in(environment, self.lookups, *VERSIONS, given="\n".join(names) + "\n").splitlines()
        return {line.split("\t")[0]: line.split("\t")[1:] for line in lines}

    def test_each_look_up_is_answered_alike_and_gives_no_hooked_function_of_the_driver(self):
        for release in HERE:
            with self.subTest(release=release):
                theirs = exported(DRIVERS[release] / "libcuda.so.1")
                names = sorted({row[0] for row in TABLE} | {row[1] for row in TABLE} | set(theirs) | {"cuNothing", ""})
                without, behind = self.look_up(bare(DRIVERS[release]), names), self.look_up(self.environments["governed"](DRIVERS[release]), names)
                self.assertGreater(len(without), 4000)
                differences, unhooked, seen = [], [], set()
                for way, answers in without.items():
                    self.assertEqual(len(answers), len(behind[way]), way)
                    for version, one, other in zip(VERSIONS, answers, behind[way]):
                        (answer, place), (told, told_place) = one.split("@"), other.split("@")
                        if answer != told:
                            differences.append((way, version, answer, told))
                        symbol = told.split("/")[2]
                        if symbol in HOOKED:
                            seen.add(symbol)
                            if pathlib.Path(told_place).parent != GUARD:
                                unhooked.append((way, version, told_place))
                self.assertEqual(differences, [])
                self.assertEqual(unhooked, [])
                self.assertGreater(len(seen), 60)
                # What cuda-gdb looks up is found in the driver itself.
                variables = {name for name, kind in theirs.items() if kind != "T"}
                self.assertGreater(len(variables), 15)
                found = {name: pathlib.Path(behind[f"{name} dlsym"][0].split("@")[1]) for name in variables}
                self.assertEqual({name: place for name, place in found.items() if not place.resolve().samefile(DRIVERS[release] / "libcuda.so.1")}, {})

    def calls(self, environment, driver, *launcher, python=(sys.executable,)):
        return json.loads(self.run_in(environment, *launcher, *python, ROOM / "calls.py", *functions(driver)))

    def assert_alike(self, without, behind, parts=("before init", "no card", "fork before the first call", "threads", "main", "fork after it")):
        for part in parts:
            if isinstance(without[part], dict):
                differences = {case: (answer, behind[part][case]) for case, answer in without[part].items()
                               if answer != behind[part][case] and not is_error_for_a_crash(case, answer, behind[part][case])}
                self.assertEqual(differences, {}, part)
            else:
                self.assertEqual(behind[part], without[part], part)

    def test_each_call_is_answered_alike_where_there_is_no_card(self):
        for release in HERE:
            driver = DRIVERS[release]
            without = self.calls(bare(driver), driver)
            self.assertGreater(len(without["no card"]), 300)
            self.assertEqual(without["main"][1], NO_DEVICE)
            for how, environment in self.environments.items():
                with self.subTest(release=release, how=how):
                    self.assert_alike(without, self.calls(environment(driver), driver))

    def test_each_call_is_answered_alike_in_a_program_that_limits_itself(self):
        script = "import runpy, sys, ration; {}; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
        for release in HERE:
            environment = bare(DRIVERS[release])
            without = self.calls(environment, DRIVERS[release])
            # A limit needs to know the devices, and initialises the driver for that: then NVIDIA's refuses a forked child (304).
            for does, parts in {"pass": list(without), "ration.limit('1GiB')": ["no card", "threads", "main", "fork after it"]}.items():
                with self.subTest(does, release=release), tempfile.TemporaryDirectory() as folder:
                    inside = {"PYTHONPATH": str(SOURCE / "libration/python"), "RATION_LIBRARY": str(BUILD / "lib/libration.so.1"), "RATION_RUNTIME_DIR": folder}
                    self.assert_alike(without, self.calls(environment | inside, DRIVERS[release], python=(sys.executable, "-c", script.format(does))), parts)

    def test_each_call_is_answered_alike_where_a_container_has_the_driver_among_its_libraries(self):
        """As NVIDIA's toolkit mounts it: no variable says where the driver is."""
        unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
        if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespace is permitted here")
        for release in HERE:
            with self.subTest(release=release), tempfile.TemporaryDirectory() as mounted:
                for library in DRIVERS[release].iterdir():
                    shutil.copy(library, mounted)
                script = f'mount -t overlay overlay -o "lowerdir={mounted}:{LIBRARIES}" {LIBRARIES} && exec "$@"'
                inside = {name: value for name, value in self.environments["governed"](DRIVERS[release]).items() if name not in ("LD_LIBRARY_PATH", "RATION_DRIVER_PATH")}
                without = self.calls({"PATH": os.environ["PATH"]}, DRIVERS[release], *unshare, "sh", "-c", script, "sh")
                self.assertEqual(without["main"][1], NO_DEVICE)
                self.assert_alike(without, self.calls({"PATH": os.environ["PATH"]}, DRIVERS[release], *unshare, "sh", "-c", script, "sh", "env",
                                                      *(f"{name}={value}" for name, value in inside.items())))


if __name__ == "__main__":
    if not HERE:
        print(NONE_HERE)
        sys.exit(77)
    unittest.main(verbosity=2)
