#!/usr/bin/env python3
"""What the driver holds for a program that never asked for it: found by the daemon, shown, and bound by the limit."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node.node_case import Case  # noqa: E402
from node_client import BIN, MIB  # noqa: E402
from sim import actor as sim_actor  # noqa: E402
from sim.actor import Actor  # noqa: E402

CONTEXT = 64
STACKS = 40 * 1024  # threads that a T4 runs at once


class Unrequested(Case):
    def setUp(self):
        super().setUp()
        self.actor = Actor(self.environment, [BIN / "ration", "run", self.node, "--limit", "4GiB", "--name", "code", "--"])
        self.addCleanup(self.actor.end)
        self.assertEqual(self.actor.ask("init"), 0)
        self.assertEqual(self.actor.ask("take", 512), 0)

    def truly(self):
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=self.node.removeprefix("--sim=")),
                              capture_output=True, text=True, check=True)
        return sum(process["bytes"] for process in json.loads(told.stdout)["devices"][0]["processes"]) // MIB

    def used(self):
        return self.row("code")["used_bytes"] // MIB

    def settled(self, used):
        self.until(lambda: self.used() == used, f"{used} MiB in its row")

    def test_the_local_memory_of_a_kernel_is_bound_by_the_limit(self):
        stacks = (33 - 1) * 1024 * STACKS // MIB
        self.assertEqual(self.actor.ask("run_kernel", 33 * 1024), 0)
        self.settled(CONTEXT + 512 + stacks)
        self.assertEqual(self.used(), self.truly())
        rest = 4096 - CONTEXT - 512 - stacks
        self.assertEqual([self.actor.ask("take", rest + 2), self.actor.ask("take", rest), self.actor.ask("take", 2)], [2, 0, 2])
        self.assertEqual(self.truly(), 4096)
        parts = {row["id"]: row["bytes"] for row in self.get("/api/v1/workloads/code/explain")[0]["rows"]}
        self.assertEqual((parts["unrequested"], parts["unexplained"]), (stacks * MIB, 0))
        self.assertIn("4.00 GiB of its limit 4.00 GiB", self.ration("why", self.node).stdout)

    def test_it_goes_with_its_process_and_outlives_the_daemon(self):
        stacks = (9 - 1) * 1024 * STACKS // MIB
        self.assertEqual(self.actor.ask("run_kernel", 9 * 1024), 0)
        self.settled(CONTEXT + 512 + stacks)
        self.stop()
        self.start()
        self.settled(CONTEXT + 512 + stacks)
        self.actor.end()
        self.until(lambda: "code" not in self.rows(), "its row goes")

    def test_the_next_program_of_the_workload_begins_with_the_whole_limit(self):
        actor = f"{sys.executable} {sim_actor.__file__}"
        first, second = self.folder / "first", self.folder / "second"
        for pipe in (first, second):
            os.mkfifo(pipe)
        program = subprocess.Popen([BIN / "ration", "run", self.node, "--limit", "4GiB", "--name", "steps", "--", "sh", "-c",
                                    f"{actor} < {first}; echo; {actor} < {second}"],
                                   env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (program.kill(), program.communicate()))
        with open(first, "w") as orders:
            orders.write(f"init\nrun_kernel {33 * 1024}\n")
            orders.flush()
            self.assertEqual([program.stdout.readline() for _ in range(2)], ["0\n"] * 2)
            self.until(lambda: self.row("steps")["used_bytes"] == (CONTEXT + 32 * 1024 * STACKS // MIB) * MIB, "it is found")
        self.assertEqual(program.stdout.readline(), "\n", "the first one has ended")
        with open(second, "w") as orders:
            orders.write(f"init\ntake {4096 - CONTEXT}\n")
            orders.flush()
            self.assertEqual([program.stdout.readline() for _ in range(2)], ["0\n"] * 2)
            self.until(lambda: self.row("steps")["used_bytes"] == 4096 * MIB, "all of it")
        self.assertEqual(program.wait(), 0)

    def test_managed_memory_is_no_part_of_it_and_nobodys_violation(self):
        """The driver's figures for processes leave it out; the device's do not."""
        self.assertEqual([self.actor.ask("managed", 2048), self.actor.ask("run_kernel", 9 * 1024)], [0, 0])
        stacks = (9 - 1) * 1024 * STACKS // MIB
        self.settled(CONTEXT + 512 + 2048 + stacks)
        answer = self.get("/api/v1/workloads/code/explain")[0]
        parts = {row["id"]: row["bytes"] for row in answer["rows"]}
        self.assertEqual([parts[each] // MIB for each in ("allocated", "managed", "unrequested", "unexplained")], [512, 2048, stacks, 0])
        device = self.get("/api/v1/devices")[0]
        self.assertEqual([device.get("orphaned_bytes"), device.get("unexplained_bytes")], [0, 0], device)
        self.assertEqual(self.row("code")["processes"][0]["state"], "managed")

    def test_what_was_only_taken_and_returned_between_two_looks_is_never_counted(self):
        looks = self.get("/api/v1/health")["looks"]
        while self.get("/api/v1/health")["looks"] < looks + 15:
            self.assertEqual((self.actor.ask("take", 1024), self.actor.ask("give")), (0, 0))
        self.settled(CONTEXT + 512)


if __name__ == "__main__":
    unittest.main()
