#!/usr/bin/env python3
"""The names of NVIDIA's own user-space drivers: each is the guard's, or listed with the reason why not, and a program that is linked
with them starts behind the guard. Names and public calls only; nothing of the drivers is looked into."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from drivers import BUILD, DRIVERS, GUARD, HERE, NONE_HERE, ROOM, bare, compile_c, exported

LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")


def reasons():
    rows = [line.split("\t") for line in (ROOM / "not_exported.tsv").read_text().splitlines() if not line.startswith("#")]
    return {pattern: why for pattern, why in rows if why}


def left_out(name):
    return any(re.fullmatch(pattern, name) for pattern in reasons())


class Names(unittest.TestCase):
    def each(self):
        for release in HERE:
            for library in LIBRARIES:
                with self.subTest(release=release, library=library):
                    yield DRIVERS[release], library

    def test_each_name_of_a_driver_is_the_guards_or_listed(self):
        for folder, library in self.each():
            theirs, ours = exported(folder / library), exported(GUARD / library)
            self.assertGreater(len(theirs), 200)
            self.assertEqual(sorted(name for name in theirs if name not in ours and not left_out(name)), [])
            self.assertEqual(sorted(name for name in theirs if name in ours and left_out(name)), [], "listed for nothing")

    def test_each_reason_is_of_a_name_that_is_there(self):
        names = {name for release in HERE for library in LIBRARIES for name in exported(DRIVERS[release] / library)}
        for pattern in reasons():
            self.assertTrue(any(re.fullmatch(pattern, name) for name in names), pattern)

    def test_the_simulated_driver_has_the_names_of_its_release(self):
        """Of NVML, later drivers of a branch have names of later branches."""
        for folder, library in self.each():
            simulated = BUILD / "sim/drivers" / folder.parent.name / library
            if simulated.exists() and (library == "libcuda.so.1" or folder.parent.name == "470"):
                theirs, ours = exported(folder / library), exported(simulated)
                self.assertEqual(sorted(name for name in theirs if name not in ours and not left_out(name)), [])
                self.assertEqual(sorted(set(ours) - set(theirs) - {"cuEventCreateFromEGLSync"}), [])  # which is on Jetson alone

    def test_each_simulated_nvml_has_a_text_for_each_error(self):
        for library in [BUILD / "sim" / LIBRARIES[1], *(BUILD / "sim/drivers").glob(f"*/{LIBRARIES[1]}")]:
            self.assertIn("nvmlErrorString", exported(library), library)

    def program(self, folder, library, names):
        """One that is linked with all of these functions, and says how many of them it found."""
        with tempfile.NamedTemporaryFile("w", suffix=".c", dir=folder) as source:
            source.write("#include <stdio.h>\n" + "".join(f"void {name}(void);\n" for name in names) + "int main(int count, char** words) {\n" +
                         "".join(f"  if (count > 1000 + {index}) {name}();\n" for index, name in enumerate(names)) +
                         "  void (*volatile found[])(void) = {" + ", ".join(names) + "};\n"
                         '  int there = 0;\n  for (unsigned i = 0; i < sizeof found / sizeof *found; ++i) there += found[i] != 0;\n'
                         '  printf("%d\\n", there);\n}\n')
            source.flush()
            program = pathlib.Path(folder) / "program"
            done = compile_c(source.name, program, library)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return program

    def test_a_program_that_is_linked_with_each_function_starts_behind_the_guard(self):
        for folder, library in self.each():
            names = sorted(name for name, kind in exported(folder / library).items() if kind == "T" and not left_out(name))
            with tempfile.TemporaryDirectory() as scratch:
                program = self.program(scratch, folder / library, names)
                for eager in ("", "1"):
                    environment = bare(folder) | {"RATION_DRIVER_PATH": str(folder), "LD_BIND_NOW": eager}
                    for preload in ("", f"{GUARD}/libcuda.so.1:{GUARD}/libnvidia-ml.so.1"):
                        done = subprocess.run([program], env=environment | {"LD_PRELOAD": preload}, capture_output=True, text=True, timeout=60)
                        self.assertEqual((done.stdout.strip(), done.stderr), (str(len(names)), ""), (eager, preload))


if __name__ == "__main__":
    if not HERE:
        print(NONE_HERE)
        sys.exit(77)
    unittest.main(verbosity=2)
