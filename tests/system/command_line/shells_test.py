#!/usr/bin/env python3
"""Completion as each shell does it: a line with a tab is typed on a terminal, and what the shell then runs is what was completed."""
import os
import pathlib
import pty
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "node"))
from node_case import Case, NODE  # noqa: E402
from node_client import BIN  # noqa: E402

READY = "type>"
# How a shell is started, and where it reads what it is to begin with.
SHELLS = {
    "bash": (["bash", "--rcfile", "begin", "-i"], "begin", f"source script; PS1='{READY}'"),
    "zsh": (["zsh", "-d", "-i"], ".zshrc", f"autoload -U compinit; compinit -u -D; source ./script; PS1='{READY}'"),
    "fish": (["fish", "--no-config", "-C", "source begin", "-i"], "begin", f"source script; function fish_prompt; echo -n '{READY}'; end"),
}
# What is typed before the tab, and the words that it comes to.
LINES = [
    ("recom", ["recommend"]),
    ("set h", ["set", "held"]), ("why ", ["why", "held"]), ("stop nobody", ["stop", "nobody"]),
    ("jupyter uninst", ["jupyter", "uninstall"]), ("jupyter install --disp", ["jupyter", "install", "--display-name"]), ("inject comp", ["inject", "compose"]),
    ("ps --gpu ", ["ps", "--gpu", "0"]), ("ps --gpu=", ["ps", "--gpu=0"]), ("ps --tenant t", ["ps", "--tenant", "team"]),
    ("run --slice a", ["run", "--slice", "a$b"]),
    ("demo --scenario jup", ["demo", "--scenario", "jupyterhub"]),
    ("help guar", ["help", "guarantee"]),
    ("set held --lim", ["set", "held", "--limit"]),
    ("service unin", ["service", "uninstall"]), ("ps --units b", ["ps", "--units", "bytes"]), ("completion z", ["completion", "zsh"]),
    ("config validate back", ["config", "validate", "backup.toml"]),
    ("run --limit 1GiB -- frob", ["run", "--limit", "1GiB", "--", "frobnicate"]),
    ("run -- frobnicate back", ["run", "--", "frobnicate", "backup.toml"]),
]


class Shells(Case):
    def setUp(self):
        super().setUp()
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        self.typed = self.folder / "typed"
        self.add_tool("ration", f'[ "$1" = candidates ] && exec {BIN}/ration "$@"\nprintf "%s\\n" "$@" > {self.typed}.part && mv {self.typed}.part {self.typed}')
        self.add_tool("frobnicate", "")
        (self.tools / "backup.toml").write_text("")
        self.environment.update(PATH=f"{self.tools}:/usr/bin:/bin", TERM="xterm", ZDOTDIR=str(self.tools), HISTFILE="/dev/null")

    def add_tool(self, name, text):
        (self.tools / name).write_text("#!/bin/sh\n" + text + "\n")
        (self.tools / name).chmod(0o755)

    def completed(self, shell, line):
        """The words that the shell runs after `ration`, when a tab was typed behind the line."""
        self.typed.unlink(missing_ok=True)
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.tools)
            os.execvpe(SHELLS[shell][0][0], SHELLS[shell][0], self.environment)
        try:
            screen = ""
            while READY not in screen:
                screen += os.read(terminal, 4096).decode(errors="replace")
            os.write(terminal, f"ration {line}\t\r".encode())
            while not self.typed.exists():
                os.read(terminal, 4096)
            return self.typed.read_text().split("\n")[:-1]
        finally:
            os.close(terminal)
            os.kill(child, 9)
            os.waitpid(child, 0)

    def check(self, shell, lines):
        (self.tools / "script").write_text(self.ration("completion", shell).stdout)
        (self.tools / SHELLS[shell][1]).write_text(SHELLS[shell][2] + "\n")
        for line, words in lines:
            with self.subTest(shell=shell, line=line):
                self.assertEqual(self.completed(shell, line), words)

    def complete_in(self, shell):
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed (./dev setup installs it)")
        self.holding("held", "1GiB", "--tenant", "team")
        self.row("held")
        self.assertEqual(self.ration("split", NODE, "0", "--sizes", "2GiB,3GiB", "--names", "a$b,c").returncode, 0)
        self.check(shell, LINES)
        # The node that the line names is the one that is asked.
        elsewhere = f"set --socket={self.folder}/nowhere h"
        self.check(shell, [(elsewhere, elsewhere.split())])

    def test_bash(self):
        self.complete_in("bash")

    def test_zsh(self):
        self.complete_in("zsh")

    def test_fish(self):
        self.complete_in("fish")


if __name__ == "__main__":
    unittest.main()
