#!/usr/bin/env python3
"""What `./dev test` leaves out: a part runs again when anything that it reads has changed, and only then. In a copy of the tracked files, without a build."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE"])
# What a part that passes and one that fails do.
PASSES, FAILS = "ran() { echo ran; }", "ran() { echo ran; failed=$((failed + 1)); }"


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        self.files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=SOURCE, capture_output=True, text=True, check=True).stdout.splitlines()
        self.files = [name for name in self.files if (SOURCE / name).is_file()]
        for name in self.files:
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, self.tree / name)
        subprocess.run(["git", "init", "-q"], cwd=self.tree, check=True)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("RATION_")}

    def parts(self, *words, **options):
        return subprocess.run(["python3", "tests/parts.py", *words], cwd=self.tree, env=self.environment, capture_output=True, text=True, check=True, **options)

    def all_of_them(self):
        return [*self.parts("tests").stdout.split(), "packages", "site", "kubernetes-adapter", "frameworks", "engines", "exports", "kubernetes", "slurm", "asan", "tsan", "fuzz"]

    def due(self, command="command"):
        return set(self.parts("due", *self.all_of_them(), input=command).stdout.split())

    def everything_passes(self):
        self.parts("passed", *self.due())
        self.assertEqual(self.due(), set())

    def after(self, *names):
        """What is due once each of these files has another line."""
        for name in names:
            with open(self.tree / name, "ab") as file:
                file.write(b"\n")
        found = self.due()
        for name in names:
            shutil.copy(SOURCE / name, self.tree / name)
        return found

    def dev(self, *lines):
        """What these lines of a shell print that has the functions of ./dev."""
        done = subprocess.run(["bash", "-c", "\n".join(["source ./dev", *lines])], cwd=self.tree, env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr


class Parts(Tree):
    def test_a_fresh_clone_runs_everything(self):
        self.assertEqual(self.due(), set(self.all_of_them()))

    def test_a_change_in_any_folder_runs_a_part(self):
        sys.path.insert(0, str(self.tree / "tests"))
        self.addCleanup(sys.path.remove, str(self.tree / "tests"))
        import parts
        self.addCleanup(sys.modules.pop, "parts")
        hashed, read_anew = {name: parts.fingerprint(name) for name in self.files}, parts.fingerprint.__wrapped__
        parts.fingerprint = hashed.get  # all but the one that changes
        before = {part: parts.state(part, "") for part in self.all_of_them()}
        unread = set()
        for folder, name in sorted({str(pathlib.PurePath(name).parent): name for name in self.files if not name.endswith("README.md")}.items()):
            was = hashed[name]
            with open(self.tree / name, "ab") as file:
                file.write(b"\n")
            hashed[name] = read_anew(name)
            if all(parts.state(part, "") == state for part, state in before.items()):
                unread.add(folder)
            hashed[name] = was
        # tests/parts.py says so.
        self.assertEqual({folder for folder in unread if not folder.startswith("bench")}, {".ci", "tests/lint", "tests/roots"})

    def test_a_page_runs_what_reads_pages(self):
        self.everything_passes()
        pages = {"site", "tests/system/docs", "tests/system/words"}
        self.assertEqual(self.after("docs/pool.md"), pages)
        self.assertEqual(self.after("README.md", "CHANGELOG.md", "DECISIONS.md", "sim/README.md", "libration/python/README.md"), pages)
        self.assertEqual(self.after("docs/metrics.md"), pages | {"tests/system/contract", "tests/system/monitoring"})
        self.assertEqual(self.after("docs/scenarios/ray.md"), pages | {"engines"})
        self.assertEqual(self.after("docs/scenarios/leak.md"), pages | {"frameworks"})

    def test_the_dashboard_runs_no_limits(self):
        self.everything_passes()
        self.assertEqual(self.after("web/src/main.tsx", "web/test/run.mjs"), {"packages", "engines", "tests/system/dashboard", "tests/system/package", "tests/unit/web"})

    def test_the_guard_runs_all_that_takes_memory(self):
        self.everything_passes()
        due = self.after("src/guard/CMakeLists.txt")
        self.assertLessEqual({"tests/system/limits", "tests/system/guard_routes", "tests/nvidia", "packages", "frameworks", "asan"}, due)
        self.assertFalse(due & {"site", "kubernetes-adapter"}, due)

    def test_a_file_that_is_not_committed_counts(self):
        self.everything_passes()
        (self.tree / "src/book/new.cpp").write_text("")
        self.assertIn("tests/unit/book", self.due())

    def test_a_compiler_a_command_and_a_list_of_frameworks_count(self):
        self.everything_passes()
        self.assertEqual(self.due("another command"), set(self.all_of_them()))
        self.assertEqual(self.after("tests/frameworks/torch.txt"), {"frameworks"})
        compiler = self.tree / "compiler"
        compiler.write_text("#!/bin/sh\necho another compiler 1.0\n")
        compiler.chmod(0o755)
        self.environment["CXX"] = str(compiler)
        (self.tree / ".git/info/exclude").write_text("compiler\n")
        self.assertEqual(self.due(), set(self.all_of_them()))

    def test_what_has_been_downloaded_counts_where_it_is_read(self):
        self.everything_passes()
        (self.tree / "build/nvidia/555").mkdir(parents=True)
        self.assertEqual(self.due(), {"tests/nvidia"})


class Dev(Tree):
    def test_a_part_that_passed_is_left_out_and_said_so(self):
        again = "part fuzz ran"
        self.assertEqual(self.dev(PASSES, again)[0], "ran\n")
        printed, said = self.dev(PASSES, again)
        self.assertEqual(printed, "")
        self.assertIn("left out, passed with these sources: fuzz (rm -r build/passed runs everything)", said)
        self.assertEqual(self.dev(PASSES.replace("ran;", "ran; true;"), again)[0], "ran\n", "another command")
        self.assertEqual(self.dev(PASSES, "export RATION_TEST_JOBS=3", again)[0], "ran\n", "another setting")

    def test_a_part_that_failed_runs_again(self):
        for _ in range(2):
            self.assertEqual(self.dev(FAILS, "part fuzz ran")[0], "ran\n")

    def test_a_function_counts_with_those_that_it_calls(self):
        inner = "inner() { echo %s; }\nran() { inner; }"
        self.assertEqual(self.dev(inner % "one", "part fuzz ran")[0], "one\n")
        self.assertEqual(self.dev(inner % "one", "part fuzz ran")[0], "")
        self.assertEqual(self.dev(inner % "two", "part fuzz ran")[0], "two\n")

    def test_of_one_run_each_folder_passes_or_fails_by_itself(self):
        (self.tree / "build/release").mkdir(parents=True)
        ctest = self.tree / "build/ctest"
        ctest.write_text("""#!/bin/sh
            case "$*" in *" -N "*) case "$*" in *tests/unit/book*) echo "  Test  #1: book_test";; *tests/unit/pool*) echo "  Test  #2: pool_test";; esac; exit 0;; esac
            echo "$*" >>build/asked
            printf '50%% tests passed, 1 tests failed out of 2\\n\\nThe following tests FAILED:\\n\\t  2 - pool_test (Failed)\\n'
            exit 8
        """)
        ctest.chmod(0o755)
        self.environment["PATH"] = f"{ctest.parent}:{self.environment['PATH']}"
        for _ in range(2):
            self.dev("release_tests")
        asked = (self.tree / "build/asked").read_text().splitlines()
        self.assertIn("tests/unit/book|", asked[0])
        self.assertTrue(asked[1].endswith("-R ^(pool_test)$"), "alone: " + asked[1])
        self.assertTrue(asked[2].endswith("-L ^(tests/unit/pool)$"), asked[2])

    def test_who_passes_alone_has_passed_and_is_named(self):
        (self.tree / "build/release").mkdir(parents=True)
        ctest = self.tree / "build/ctest"
        for alone, printed in (("printf '100%% tests passed, 0 tests failed out of 1\\n'", "failed beside other tests, and passed alone: pool_test\n2 passed, 0 failed\n"),
                               ("printf '0%% tests passed, 1 tests failed out of 1\\n\\nThe following tests FAILED:\\n\\t  2 - pool_test (Failed)\\n'", "1 passed, 1 failed\n"),
                               ("echo killed", "1 passed, 1 failed\n")):
            ctest.write_text(f"""#!/bin/sh
                case "$*" in *" -R "*) {alone}; exit 0;; esac
                printf '50%% tests passed, 1 tests failed out of 2\\n\\nThe following tests FAILED:\\n\\t  2 - pool_test (Failed)\\n'
            """)
            ctest.chmod(0o755)
            self.environment["PATH"] = f"{ctest.parent}:{self.environment['PATH']}"
            self.assertEqual(self.dev("suite release >/dev/null 2>&1; closing_line || true")[0], printed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
