#!/usr/bin/env python3
"""Limits of pinned host memory that the daemon owns: what people set, what a policy gives, and what is said of them."""
import json
import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "limits"))
from node_case import NODE, Case  # noqa: E402
from node_client import BIN, GIB, MIB, UnixConnection, of_any_node  # noqa: E402
from book_layout import OFFSET  # noqa: E402
from program import Program  # noqa: E402

OUT_OF_MEMORY = 2


class HostLimits(Case):
    configuration = '[[policy]]\nmatch = { label = { team = "small" } }\nhost_limit = "40MiB"\n'

    def pinning(self, name, mib, *options):
        program = Program(self.environment, [BIN / "ration", "run", NODE, "--name", name, "--limit", "1GiB", *options, "--"])
        self.addCleanup(program.end)
        self.assertEqual(program.ask(f"start(); answer = pin({mib})[0]"), 0)
        self.until(lambda: self.row(name).get("host_used_bytes") == mib * MIB, "the daemon has seen it")
        return program

    def set(self, name, size, status=0):
        done = self.ration("set", NODE, name, "--host-limit", size)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def test_a_limit_is_set_below_what_is_pinned_and_ended(self):
        program = self.pinning("train", 100)
        self.assertIn("train: host limit unlimited → 64.0 MiB (now).", said := self.set("train", "64MiB"))
        self.assertIn("36.0 MiB above its host limit", said)
        self.assertEqual((self.row("train")["host_limit_bytes"], self.row("train")["host_used_bytes"]), (64 * MIB, 100 * MIB))
        self.assertEqual(program.ask("answer = pin(1)[0]"), OUT_OF_MEMORY)
        self.assertIn("64.0 MiB → 128 MiB", self.set("train", "+64MiB"))
        self.assertEqual(program.ask("answer = [pin(28)[0], pin(1)[0]]"), [0, OUT_OF_MEMORY])
        row = self.until(lambda: self.row("train") if self.row("train")["host_denials"] == 2 else None, "both denials")
        why = self.ration("why", NODE, row["last_denial"])
        self.assertIn("train held 128 MiB of pinned host memory, its host limit is 128 MiB, and 1.00 MiB more would not fit", why.stdout)
        self.assertIn("ration set train --host-limit 256MiB", of_any_node(why.stdout))
        self.assertIn("128 MiB of pinned host memory, all processes together; host limit 128 MiB", self.ration("explain", NODE, "train").stdout)
        self.assertIn("128 MiB of 128 MiB", self.ration("ps", NODE).stdout)
        self.set("train", "unlimited")
        self.assertEqual(program.ask("answer = pin(500)[0]"), 0)
        self.assertIsNone(self.row("train")["host_limit_bytes"])
        self.assertEqual([event["type"] for event in self.events("resized") if "host limit" in event["text"]], ["resized"] * 3)

    def test_a_policy_limits_and_people_do_not_raise_above_it(self):
        program = self.pinning("job", 30, "--label", "team=small")
        self.until(lambda: self.row("job")["host_limit_bytes"] == 40 * MIB, "the policy's limit")
        self.assertEqual(program.ask("answer = [pin(11)[0], pin(10)[0]]"), [OUT_OF_MEMORY, 0])
        self.set("job", "1GiB")
        self.assertEqual(self.row("job")["host_limit_bytes"], 40 * MIB)
        self.assertEqual(program.ask("answer = pin(1)[0]"), OUT_OF_MEMORY)
        self.set("job", "20MiB")
        self.assertEqual(self.row("job")["host_limit_bytes"], 20 * MIB)

    def test_a_restart_keeps_it_and_a_changed_book_is_put_right(self):
        program = self.pinning("train", 10)
        self.set("train", "16MiB")
        self.stop()
        self.set("train", "12MiB")
        self.start()
        self.until(lambda: self.row("train")["host_limit_bytes"] == 12 * MIB, "what was set while no daemon ran")
        with open(self.book("train"), "r+b") as book:
            book.seek(OFFSET["host.limit"])
            book.write(struct.pack("<Q", GIB))
        self.until(lambda: any("changed its own host limit to 1.00 GiB; it was put back to 12.0 MiB" in event["text"] for event in self.events("violation")), "it is noticed")
        self.assertEqual(program.ask("answer = pin(4)[0]"), OUT_OF_MEMORY)
        self.assertEqual(self.row("train")["host_limit_bytes"], 12 * MIB)

    def test_it_is_in_the_accounts_beside_the_gpus_memory(self):
        program = self.pinning("train", 64, "--host-limit", "96MiB")
        self.assertEqual(program.ask("answer = pin(64)[0]"), OUT_OF_MEMORY)

        def row():
            rows = {each["name"]: each for each in self.get("/api/v1/reports/usage?window=24h&by=workload")["rows"] if each["kind"] == "governed"}
            found = next((each for name, each in rows.items() if name.endswith("/train")), None)
            return found if found and found["host_denials"] == 1 and float(found["host_used_byte_seconds"]) >= 64 * MIB else None

        told = self.until(row, "a second of it is in the accounts")
        self.assertEqual(told["host_peak_bytes"], 64 * MIB)
        self.assertEqual(told["denials"], 0, "those of the GPU")
        text = self.ration("report", NODE, "--by", "workload").stdout
        self.assertRegex(text, r"PINNED +PINNED PEAK")
        self.assertIn("64.0 MiB", text)
        self.assertIn("Pinned host memory is on no GPU", text)
        self.assertIn("pinned host memory, peak 64.0 MiB · denials 1", self.ration("report", NODE, "--last", "train").stdout)
        focus = self.ration("report", NODE, "-o", "focus").stdout.splitlines()
        self.assertEqual(len([line for line in focus if ",pinned-host-memory," in line]), 1, focus)
        self.assertIn("PINNED", self.ration("top", NODE, "--once", env={"COLUMNS": "160"}).stdout)
        program.end()
        self.until(lambda: "train" not in self.rows(), "its end")
        self.stop()
        self.start()
        self.assertEqual(row()["host_peak_bytes"], 64 * MIB)

    def test_metrics_add_up_each_workload_once(self):
        self.pinning("one", 10, "--host-limit", "16MiB")
        self.pinning("two", 20)
        connection = UnixConnection(self.folder / "ration.sock")
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        values = {line.split("{")[0]: float(line.split()[-1]) for line in lines if line.startswith("ration_tenant_host_")}
        self.assertEqual(values, {"ration_tenant_host_memory_bytes": 30 * MIB, "ration_tenant_host_peak_bytes": 30 * MIB, "ration_tenant_host_limit_bytes": 16 * MIB})

    def test_what_cannot_be_set_is_said_in_a_line(self):
        self.pinning("train", 10)
        for size, words in (("0GiB", "E1105"), ("900TiB", "E1104"), ("many", "E1102"), ("7", "E1101")):
            with self.subTest(size):
                self.assertIn(words, self.set("train", size, 2))
        status, answer = self.ask("PATCH", "/api/v1/workloads/train", {"host_limt": "1GiB"})
        self.assertEqual(status, 400)
        self.assertIn("host_limit", json.dumps(answer))


if __name__ == "__main__":
    unittest.main()
