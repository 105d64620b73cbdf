#!/usr/bin/env python3
"""What is stored once stays the same: sums, peaks, denials, runs and events before and after restarts, kills, changes of the
clock and an upgrade."""
import itertools
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node.node_case import Case, ClockCase  # noqa: E402
from node_client import BIN, GIB, SOURCE  # noqa: E402

PREVIOUS = SOURCE / f"tests/data/ration-0.1.0-linux-{platform.machine()}.tar.xz"
RESTARTS = 100
LIVE, DENIED = ("denials", "peak_bytes"), ("started", "denied", "ended")


class Sums(Case):
    pace = "50ms"
    context = 64 << 20

    def denied(self, name, *options):
        """A workload that was denied once, and has ended."""
        done = self.ration("run", *self.node.split(), "--name", name, "--limit", "1GiB", *options, "--", BIN / "ration-workload", "hold", "2GiB")
        self.assertNotEqual(done.returncode, 0, done.stdout)

    def holding_and_denied(self, name):
        """A workload that is denied once, then holds 1 GiB."""
        process = subprocess.Popen([BIN / "ration", "run", *self.node.split(), "--name", name, "--limit", "2GiB", "--", "sh", "-c",
                                    f"{BIN}/ration-workload hold 4GiB; exec {BIN}/ration-workload hold 1GiB"],
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        while "holding" not in (line := process.stdout.readline()):
            self.assertNotEqual(line, "", "it ended")
        return process

    def report(self, *fields):
        """By workload: those fields of its row in the report of the last day."""
        rows = self.get("/api/v1/reports/usage?window=24h&by=workload")["rows"]
        return {row["name"].split("/")[-1]: {field: row[field] for field in fields or row} for row in rows if row["kind"] == "governed"}

    def comes_to(self, expected, *fields):
        """Waits until what is in memory is stored, and the report says that."""
        self.until(lambda: self.report(*fields) == expected or self.report(*fields).get("greedy", {"denials": 0})["denials"] > expected["greedy"]["denials"],
                   f"{expected}, not {self.report(*fields)}")
        self.assertEqual(self.report(*fields), expected)

    def told(self):
        """Each event of a workload with how often it was told."""
        events = [(event["type"], event["workload"], event["time"], event["text"]) for event in self.events(*DENIED)]
        return {event: events.count(event) for event in events}

    def look(self):
        seen = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > seen + 1, "the daemon looks")

    def again(self, number):
        """Every other time it is killed; every fourth time while it does its first work."""
        self.stop(signal.SIGKILL if number % 2 else signal.SIGTERM)
        self.start()
        if number % 4 != 1:
            self.look()

    def test_a_hundred_restarts_and_kills_change_nothing_stored(self):
        self.holding_and_denied("living")
        for _ in range(3):
            self.denied("greedy")
        expected = {"living": {"denials": 1, "peak_bytes": GIB + self.context}, "greedy": {"denials": 3, "peak_bytes": self.context}}
        self.comes_to(expected, *LIVE)
        told = self.told()
        for number in range(RESTARTS):
            self.again(number)
        self.look()
        self.assertEqual(self.report(*LIVE), expected)
        self.assertEqual(self.told(), told)
        self.assertEqual(set(told.values()), {1})

    def test_what_happens_between_restarts_is_counted_once(self):
        self.holding_and_denied("living")
        for number in range(8):
            if number % 2:
                self.stop(signal.SIGKILL)
                self.denied("greedy")  # nobody watches
                self.start()
            else:
                self.denied("greedy")
                self.again(number)
        self.look()
        self.comes_to({"living": {"denials": 1}, "greedy": {"denials": 8}}, "denials")
        told = self.told()
        self.assertEqual(sum(count for event, count in told.items() if event[0] == "denied"), 9, told)

    def test_what_has_ended_is_the_same_for_ever(self):
        program = self.holding_and_denied("ended")
        self.denied("greedy")
        self.look()
        program.terminate()
        program.wait()
        self.until(lambda: "ended" not in self.rows(), "it ends")
        self.comes_to({"ended": {"denials": 1}, "greedy": {"denials": 1}}, "denials")
        self.stop()  # everything is stored
        self.start()
        self.look()
        before, told = self.report(), self.told()
        self.assertGreater(float(before["ended"]["used_byte_seconds"]), 0)
        for number in range(20):
            self.again(number)
        self.look()
        self.assertEqual(self.report(*before["ended"]), before)  # a later version may have more fields
        self.assertEqual(self.told(), told)


class Clock(ClockCase, Sums):
    """The time of day is set while the daemon is away."""

    def again(self, number):
        self.set_clock((0, 3600, -3600, 7 * 3600)[number % 4])
        super().again(number)
        self.set_clock(0)


class Upgrade(Sums):
    """A daemon of the previous version has counted; this version goes on. Both find the simulated driver as the machine's."""

    node = ""
    context = 104 << 20

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        subprocess.run(["tar", "-xJf", PREVIOUS, "-C", folder.name], check=True)
        self.program = pathlib.Path(folder.name) / "bin/rationd"
        super().setUp()

    def start(self, *options):
        self.environment |= {"LD_LIBRARY_PATH": str(BIN.parent / "sim"), "RATION_SIM": ""}
        super().start(*options)

    def again(self, number):
        self.program = BIN / "rationd"
        super().again(number)


del Case, ClockCase

if __name__ == "__main__":
    unittest.main(verbosity=2)
