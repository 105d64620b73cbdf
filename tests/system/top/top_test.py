#!/usr/bin/env python3
"""`ration top` in a terminal of its own, against a real daemon on the simulated GPU: what it shows, what its keys do, and that the
terminal is left as it was found."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

import jsonschema
import pyte

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from node.node_case import NODE, Case  # noqa: E402
from node_client import BIN, GIB, PATIENCE, SOURCE  # noqa: E402

ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"  # the other screen of xterm, and back


class Terminal:
    """A terminal of its own with a program in it, and what can be read on it."""

    def __init__(self, test, command, environment, columns=100, rows=24):
        self.test = test
        self.screen = pyte.Screen(columns, rows)
        self.feed = pyte.ByteStream(self.screen)
        self.raw = b""
        self.master, self.slave = pty.openpty()
        test.addCleanup(os.close, self.master)
        test.addCleanup(os.close, self.slave)
        self.resize(columns, rows, tell=False)
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(command, stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
                                        env=dict(environment, TERM="xterm-256color"),
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        test.addCleanup(lambda: (self.process.kill(), self.process.wait()))

    def resize(self, columns, rows, tell=True):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:
            self.screen.resize(rows, columns)
            self.process.send_signal(signal.SIGWINCH)

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self):
        while select.select([self.master], [], [], 0.05)[0]:
            part = os.read(self.master, 65536)
            self.raw += part
            self.feed.feed(part)

    @property
    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display)

    def until(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.read()
            if condition():
                return
        self.test.fail(f"never: {what}\n{self.text}")

    def sees(self, *parts):
        self.until(lambda: all(part in self.text for part in parts), f"{parts} on the screen")

    def ended(self):
        self.until(lambda: self.process.poll() is not None, "its end")
        self.read()
        return self.process.returncode

    def expect_restored(self):
        self.test.assertEqual(termios.tcgetattr(self.slave), self.before)
        self.test.assertGreater(self.raw.rfind(LEFT), self.raw.rfind(ENTERED))
        self.test.assertIn(b"\x1b[?25h", self.raw[self.raw.rfind(ENTERED):], "the cursor")


class TopCase(Case):
    def top(self, *options, columns=100, rows=24, **more):
        return Terminal(self, [BIN / "ration", "top", NODE, *options], dict(self.environment, **more), columns, rows)

    def refused(self, name="greedy", tenant="nlp"):
        """A workload that was refused memory and still runs."""
        held = self.folder / name
        script = f"'{BIN}/ration-workload' hold 2GiB >/dev/null 2>&1; touch '{held}'; exec '{BIN}/ration-workload' hold 512MiB"
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--name", name, "--limit", "1GiB", "--tenant", tenant, "--", "sh", "-c", script],
                                   env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (process.terminate(), process.wait()))
        self.until(held.exists, "the refusal")


class Watching(TopCase):
    def test_a_workload_its_denial_its_reason_and_a_limit_raised_from_the_keyboard(self):
        self.holding("train", "2GiB", "--limit", "3GiB", "--tenant", "nlp")
        terminal = self.top()
        terminal.sees("GPU 0", "nlp/train", "3.00G", "daemon", "[s set limit]")
        self.refused()
        terminal.sees("DENIED", "nlp/greedy")
        terminal.type("/greedy\r")
        terminal.sees("1 of 2 shown")
        terminal.type("w")
        terminal.sees("because", "greedy held", "fix")
        terminal.type("\x1b")
        terminal.sees("DENY")
        terminal.type("s")
        terminal.sees("limit of nlp/greedy")
        terminal.type("2GiB\r")
        terminal.sees("limit 1.00 GiB → 2.00 GiB")
        self.assertEqual(self.rows()["greedy"]["limit_bytes"], 2 * GIB)
        terminal.type("e")
        terminal.sees("events, newest first", "resized")
        terminal.type("\x1b")
        terminal.sees("DENY")
        terminal.type("\r")
        terminal.sees("where the memory of greedy is", "CUDA context")
        terminal.type("q")
        terminal.sees("DENY")
        terminal.type("q")
        self.assertEqual(terminal.ended(), 0)
        terminal.expect_restored()

    def test_shrinking_below_what_is_held_is_asked_about(self):
        self.holding("train", "2GiB", "--limit", "3GiB")
        terminal = self.top()
        terminal.sees("root/train")
        terminal.type("s1GiB\r")
        terminal.sees("[y/N]")
        terminal.type("n\r")
        terminal.sees("nothing was changed")
        self.assertEqual(self.rows()["train"]["limit_bytes"], 3 * GIB)
        terminal.type("s1GiB\r")
        terminal.sees("[y/N]")
        terminal.type("y\r")
        terminal.sees("shrinking")
        self.assertEqual(self.rows()["train"]["limit_bytes"], GIB)

    def test_what_the_daemon_refuses_is_shown(self):
        self.holding("train", "1GiB", "--limit", "3GiB")
        terminal = self.top()
        terminal.sees("root/train")
        terminal.type("s99GiB\r")
        terminal.sees("E1104")

    def test_read_only_changes_nothing(self):
        self.holding("train", "1GiB", "--limit", "3GiB")
        terminal = self.top("--readonly")
        terminal.sees("root/train", "r/o")
        self.assertNotIn("set limit", terminal.text)
        terminal.type("s")
        terminal.sees("read-only")

    def test_it_greys_out_and_comes_back_with_the_daemon(self):
        self.holding("train", "1GiB", "--limit", "3GiB")
        terminal = self.top()
        terminal.sees("root/train")
        self.stop()
        terminal.sees("s old")
        self.start()
        terminal.until(lambda: " old" not in terminal.text and "root/train" in terminal.text, "the numbers of the new daemon")
        self.holding("later", "1GiB", "--limit", "2GiB")
        terminal.sees("later")

    def test_without_a_daemon_the_books_are_looked_at(self):
        self.stop()
        self.holding("train", "1GiB", "--limit", "3GiB")
        terminal = self.top()
        terminal.sees("default/train", "no daemon", "r/o", "a daemon also shows events and limits of tenants: ration serve --sim")
        self.refused()
        terminal.sees("greedy was denied")
        terminal.type("/greedy\rw")
        terminal.sees("because", "greedy held")
        self.start()
        terminal.type("\x1b")
        terminal.until(lambda: "no daemon" not in terminal.text, "the daemon")

    def test_without_a_daemon_and_a_gpu_the_simulated_node_with_workloads_is_shown(self):
        self.stop()
        self.holding("train", "1GiB", "--limit", "3GiB")
        alone = {"RATION_SIM": ""}
        terminal = Terminal(self, [BIN / "ration", "top"], dict(self.environment, **alone))
        terminal.sees("GPU 0", "█", "default/train")
        terminal.type("\r")
        terminal.sees("where the memory of train is", "CUDA context")
        frame = self.ration("top", "--once", env=alone).stdout
        self.assertRegex(frame, r"GPU 0 .* used 1\.\d+G  free (.*\n){2}█ default 1\.\d+G\n")
        other = self.ration("top", "--once", "--sim=A100-40", env=alone).stdout
        self.assertIn("nothing holds memory", other)
        self.assertIn(f"1 more on simulated GPUs: ration top {NODE}\n", other)

    def test_full_width_keys_and_filters_as_input_methods_write_them(self):
        self.holding("train", "2GiB", "--limit", "3GiB")
        self.holding("small", "1GiB", "--limit", "3GiB")
        terminal = self.top()
        terminal.sees("root/train", "root/small")
        terminal.type("？")
        terminal.sees("this page")
        terminal.type("ｑ")
        terminal.sees("DENY")
        terminal.type("／used＞1536MiB\r")
        terminal.sees("1 of 2 shown: used＞1536MiB")
        self.assertNotIn("root/small", terminal.text.split("STATE")[1].split("started")[0])
        terminal.type("ｑ")
        self.assertEqual(terminal.ended(), 0)

    def test_times_are_those_of_the_time_zone(self):
        self.holding("train", "1GiB", "--limit", "3GiB")
        self.row("train")

        def hour(zone):
            return int(re.search(r"(?m)^(\d\d):\d\d:\d\d started", self.ration("top", NODE, "--once", env={"TZ": zone}).stdout)[1])
        self.assertEqual((hour("UTC0") + 8) % 24, hour("CST-8"))

    def test_every_size_down_to_40_by_10(self):
        self.holding("train", "1GiB", "--limit", "3GiB")
        terminal = self.top(columns=120, rows=40)
        terminal.sees("root/train")
        for columns, rows in ((80, 24), (40, 12), (40, 10), (20, 5), (3, 2), (100, 30)):
            terminal.resize(columns, rows)
            if columns >= 40:
                terminal.sees("GPU 0", "root/train", "3.00G")
        terminal.sees("[q quit]")

    def test_no_name_steers_the_terminal(self):
        environment = dict(self.environment, LD_LIBRARY_PATH=str(BIN.parent / "sim"), RATION_SIM=NODE[6:])
        outsider = subprocess.Popen(["\x1b]0;owned\x07\x1b[2Jevil", "hold", "1GiB"], executable=BIN / "ration-workload", env=environment,
                                    stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (outsider.kill(), outsider.communicate()))
        outsider.stdout.readline()
        terminal = self.top()
        terminal.sees("evil")
        self.assertNotIn(b"\x1b]0;", terminal.raw)
        self.assertNotIn(b"\x1b]0;", self.ration("top", NODE, "--once").stdout.encode())

    def test_colours_and_glyphs_are_as_asked_for(self):
        self.holding("train", "1GiB", "--limit", "3GiB")
        terminal = self.top()
        terminal.sees("█", "root/train")
        self.assertIn(b"\x1b[34m", terminal.raw)
        plain = self.top("--ascii", NO_COLOR="1")
        plain.sees("####", "root/train")
        self.assertNotIn(b"\x1b[34m", plain.raw)
        self.assertTrue(plain.raw.isascii())
        self.top(LC_ALL="C").sees("####", "root/train")


class Ending(TopCase):
    def test_every_signal_that_ends_it_leaves_the_terminal_as_it_was(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(signal=number):
                terminal = self.top()
                terminal.sees("GPU 0")
                terminal.process.send_signal(number)
                self.assertEqual(terminal.ended(), -number)
                terminal.expect_restored()

    def test_ctrl_c_ends_it(self):
        terminal = self.top()
        terminal.sees("GPU 0")
        terminal.type("\x03")
        self.assertEqual(terminal.ended(), -signal.SIGINT)
        terminal.expect_restored()

    def test_it_ends_at_once_when_the_daemon_hangs(self):
        terminal = self.top()
        terminal.sees("GPU 0")
        self.daemon.send_signal(signal.SIGSTOP)
        self.addCleanup(lambda: self.daemon.send_signal(signal.SIGCONT))
        terminal.sees("s old")
        terminal.type("q")
        self.assertEqual(terminal.ended(), 0)
        terminal.expect_restored()

    def test_stopped_it_gives_the_terminal_back_and_takes_it_again(self):
        terminal = self.top()
        terminal.sees("GPU 0")
        # Its session's leader, as here, would not be stopped by a terminal's signal: there is no shell to take over.
        terminal.process.send_signal(signal.SIGSTOP)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.screen.reset()
        terminal.sees("GPU 0")
        terminal.type("q")
        self.assertEqual(terminal.ended(), 0)
        terminal.expect_restored()

    def test_ctrl_z_under_a_shell(self):
        terminal = Terminal(self, ["bash", "--norc", "-i"], dict(self.environment, PS1="ready> "))
        terminal.sees("ready>")
        terminal.type(f"'{BIN}/ration' top '{NODE}'\r")
        terminal.sees("GPU 0")
        terminal.type("\x1a")
        terminal.sees("Stopped")
        self.assertGreater(terminal.raw.rfind(LEFT), terminal.raw.rfind(ENTERED))
        terminal.type("fg\r")
        terminal.sees("GPU 0", "[q quit]")
        terminal.type("q")
        terminal.until(lambda: terminal.raw.rfind(LEFT) > terminal.raw.rfind(ENTERED), "the shell's screen")
        terminal.type("exit\r")
        self.assertEqual(terminal.ended(), 0)

    def test_a_terminal_that_is_not_known_is_an_error(self):
        other = Terminal(self, ["env", "TERM=never-heard-of", BIN / "ration", "top", NODE], self.environment)
        self.assertEqual(other.ended(), 1)
        self.assertIn("E1430", other.text)


class Once(TopCase):
    def test_one_frame_without_a_terminal(self):
        self.holding("train", "1GiB", "--limit", "3GiB", "--tenant", "nlp")
        self.row("train")
        done = self.ration("top", NODE, "--once")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("\x1b", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        for part in ("GPU 0", "nlp/train", "3.00G", "daemon", "started"):
            self.assertIn(part, done.stdout)
        wide = self.ration("top", NODE, env={"COLUMNS": "140"})  # without a terminal it is --once
        self.assertGreater(max(map(len, wide.stdout.splitlines())), 100)
        self.assertIn("\x1b[", self.ration("top", NODE, "--once", "--color", "always").stdout)
        self.assertTrue(self.ration("top", NODE, "--once", "--ascii").stdout.isascii())

    def test_a_filter_and_an_order(self):
        self.holding("small", "1GiB", "--limit", "3GiB")
        self.holding("large", "2GiB", "--limit", "3GiB")
        self.row("large")
        self.assertNotIn("small", self.ration("top", NODE, "--once", "--filter", "used>1536MiB").stdout.split("STATE")[1].split(":")[0])
        table = self.ration("top", NODE, "--once", "--sort", "used").stdout.split("DENY")[1]
        self.assertLess(table.index("small"), table.index("large"))
        for arguments, error in ((("--filter", "used>4"), "E1101"), (("--filter", "usd>4GiB"), "E1429"), (("--sort", "usd"), "E1431")):
            done = self.ration("top", NODE, "--once", *arguments)
            self.assertEqual((done.returncode, done.stderr.split()[0]), (2, error))

    def test_json_is_the_snapshot(self):
        self.holding("train", "1GiB", "--limit", "3GiB")
        self.row("train")
        schema = json.loads((SOURCE / "share/ration/schema/top.json").read_text())
        document = json.loads(self.ration("top", NODE, "-o", "json").stdout)
        jsonschema.validate(document, schema)
        self.assertEqual(document["source"], "daemon")
        snapshot = self.get("/api/v1/snapshot")
        self.assertEqual(set(document["data"]), set(snapshot))
        fields = ("workload", "used_bytes", "limit_bytes", "run")
        self.assertEqual([[row[field] for field in fields] for row in document["data"]["workloads"]],
                         [[row[field] for field in fields] for row in snapshot["workloads"]])
        self.stop()
        alone = json.loads(self.ration("top", NODE, "-o", "json").stdout)
        jsonschema.validate(alone, schema)
        self.assertEqual([row["workload"] for row in alone["data"]["workloads"]], ["train"])

    def test_a_socket_where_nobody_is(self):
        done = self.ration("top", NODE, "--once", "--socket", self.folder / "nobody.sock", "-o", "json")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(json.loads(done.stdout)["error"]["id"], "E1501")


if __name__ == "__main__":
    unittest.main()
