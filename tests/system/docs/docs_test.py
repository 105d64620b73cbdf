#!/usr/bin/env python3
"""Each page of docs/scenarios, and each other page with `sh` blocks, as written: these blocks one after the other in one shell, on a simulated GPU.

A `text` block right behind a `sh` block is what that prints: line by line, `…` for anything within a line, a line of `…` for any lines.
`toml` and `python` blocks whose first line is a comment with a file name are written to that file, unless it is in /etc. Pages whose first line is a comment
`<!-- needs: NAME … -->` are run where these programs are installed; `<!-- run by: TEST … -->` names the tests that run them."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node_client import BIN, SOURCE, environment_in, own_folder, until  # noqa: E402

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
END = "--- end of block"


def matches(expected, printed):
    """Whether the lines of `printed` are those of `expected`."""
    pattern = "".join("(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + " *\n" for line in expected.splitlines())
    return re.fullmatch(pattern, printed) is not None


class Page:
    """A shell in which the blocks of one page run."""

    def __init__(self, case, **variables):
        self.folder = own_folder(case)
        environment = environment_in(self.folder, **{"RATION_SIM": "T4:16GiB:context=64MiB", **variables})
        for name in ("RATION_CONFIG", "XDG_CONFIG_HOME"):  # a configuration is found where the page puts it
            environment.pop(name, None)
        environment["PATH"] = f"{BIN}:{environment['PATH']}"
        self.shell = subprocess.Popen(["bash", "--noprofile", "--norc"], cwd=self.folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, start_new_session=True)
        case.addCleanup(self.end)

    def write(self, name, text):
        if not name.startswith("/"):
            file = self.folder / name.removeprefix("~/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def run(self, text):
        """What a command prints, and its exit status."""
        self.shell.stdin.write(f"{text}\necho \"{END} $?\"\n")
        self.shell.stdin.flush()
        printed = ""
        for line in self.shell.stdout:
            if line.startswith(END):
                return printed, int(line.removeprefix(END))
            printed += line
        return printed, -1

    def end(self):
        try:
            os.killpg(self.shell.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        self.shell.communicate()


def play(case, path, page):
    """Runs the blocks of a page, and compares what they print with what it shows."""
    printed = None
    for language, block in BLOCK.findall(path.read_text()):
        if language == "sh":
            printed = ""
            for command in commands_of(block):
                more, status = page.run(command)
                printed += more
                case.assertEqual(status, 0, f"{path.name}: {command}\n{more}")
        elif language == "text" and printed is not None:
            case.assertTrue(matches(block, printed), f"{path.name} shows\n{block}\nand the commands print\n{printed}")
        elif language in ("toml", "python") and (named := re.match(r"# (\S+)\n", block)):
            page.write(named[1], block)
    case.assertIsNotNone(printed, f"{path.name} has commands")


# What differs from one run to the next in what the README shows: process numbers, times, numbers of runs.
VARIES = [(re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "TIME"), (re.compile(r"\b\d{3,7}(?=\)|  \d  )"), "PID"), (re.compile(r" {2,}"), "  ")]
OWN_PROGRAMS = {"train.py": "3GiB", "needs-5-gib.py": "5GiB"}


class Readme(unittest.TestCase):
    """The README typed from its first line to its last: every `sh` block, and every `export` that the text names."""

    def fixed(self, text):
        for pattern, instead in VARIES:
            text = pattern.sub(instead, text)
        return [line.rstrip() for line in text.splitlines()]

    def play(self, readme):
        page = Page(self)
        for name, size in OWN_PROGRAMS.items():
            page.write(name, f"import os\nos.execvp('ration-workload', ['ration-workload', 'hold', '{size}'])\n")
        page.write("bin/python", f"#!/bin/sh\nexec {sys.executable} \"$@\"\n")
        (page.folder / "bin/python").chmod(0o755)
        page.run(f"PATH=$PATH:{page.folder}/bin")
        typed, printed = 0, ""
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$|`(export [^`]+)`", readme.read_text(), re.M | re.S):
            language, block, exported = found.groups()
            if exported:
                page.run(exported)
            elif language == "sh":
                printed = ""
                for command in commands_of(block):
                    more, status = page.run(command)
                    self.assertEqual(status, 0, f"{command}\n{more}")
                    printed += more
                    typed += 1
                    if re.search(r"&\s*(?:#.*)?$", command):
                        serves = command.startswith("ration serve")
                        until((lambda: page.run("ration events")[1] == 0) if serves else (lambda: "holding" in page.run("true")[0] + more), f"what was started: {command}")
            elif language == "text":
                self.assertEqual(self.fixed(printed), self.fixed(block))
            elif language == "toml":
                page.write(re.match(r"# (\S+)\n", block)[1], block)
        self.assertGreater(typed, 15)

    def test_every_line_works(self):
        self.play(SOURCE / "README.md")

    def test_every_line_of_the_chinese_one_works(self):
        self.play(SOURCE / "README.zh.md")

    def test_both_have_the_same_commands(self):
        def typed(name):
            blocks = [block for language, block in BLOCK.findall((SOURCE / name).read_text()) if language in ("sh", "console", "toml", "python")]
            return re.sub(r" *(?<!\$)#(?! ~).*", "", "".join(blocks))
        self.assertEqual(typed("README.md"), typed("README.zh.md"))

    def test_every_option_that_it_names_is_there(self):
        for verb, options in re.findall(r"^\$ ration (\w+)((?: [^-#\n][^ \n]*| --[\w-]+\S*)*)", (SOURCE / "README.md").read_text(), re.M):
            offered = subprocess.run([BIN / "ration", "candidates", "--", verb, "--"], capture_output=True, text=True).stdout
            for option in re.findall(r" (--[\w-]+)", options.split(" -- ")[0]):
                self.assertIn(f"{option}\t", offered, f"ration {verb} {option}")


class Scenarios(unittest.TestCase):
    def play(self, path):
        text = path.read_text()
        needed = re.match(r"<!-- needs: (.*) -->", text)
        missing = [name for name in (needed[1].split() if needed else []) if shutil.which(name) is None]
        if missing:
            self.skipTest(f"{path.name} needs {', '.join(missing)}")
        if elsewhere := re.match(r"<!-- run by: (.*) -->", text):
            self.assertEqual([test for test in elsewhere[1].split() if not (SOURCE / test).exists()], [])
            self.skipTest(f"{path.name} is run by {elsewhere[1]}")
        play(self, path, Page(self))


def commands_of(block):
    """The commands of a block, a line each."""
    joined = re.sub(r"\\\n\s*", "", block)
    return [command for command in joined.splitlines() if command.strip() and not command.startswith("#")]


for each in sorted((SOURCE / "docs").rglob("*.md")):
    if each.parent.name == "scenarios" or "\n```sh\n" in each.read_text():
        name = re.sub(r"\W", "_", each.relative_to(SOURCE / "docs").with_suffix("").as_posix().removeprefix("scenarios/"))
        setattr(Scenarios, f"test_{name}", lambda self, path=each: self.play(path))


class Reading(unittest.TestCase):
    def test_scenarios_are_found(self):
        played = [name for name in dir(Scenarios) if name.startswith("test_")]
        self.assertGreater(len(played), 8, played)

    def test_what_is_shown_is_compared(self):
        self.assertTrue(matches("a … c\n…\nz\n", "a b c\n1\n2\nz\n"))
        self.assertTrue(matches("a\n…\nz\n", "a\nz\n"))
        for wrong in ("a b d\nz\n", "a b c\nz\nmore\n", "a b c\n"):
            self.assertFalse(matches("a … c\n…\nz\n", wrong))

    def test_every_link_of_the_documentation_leads_somewhere(self):
        for page in [*(SOURCE / "docs").rglob("*.md"), SOURCE / "README.md", SOURCE / "README.zh.md", SOURCE / "ARCHITECTURE.md", SOURCE / "DECISIONS.md", SOURCE / "CONTRIBUTING.md"]:
            text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.S)
            for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
                if re.match(r"\w+:", target):
                    continue
                file = page if not target else (page.parent / target)
                self.assertTrue(file.exists(), f"{page.relative_to(SOURCE)}: {target}")
                if anchor and file.suffix == ".md":
                    headings = {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).strip().replace(" ", "-")
                                for line in file.read_text().splitlines() if line.startswith("#")}
                    self.assertIn(anchor, headings, f"{page.relative_to(SOURCE)}: {target}#{anchor}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
