#!/usr/bin/env python3
"""What is asked of the daemon in a form that it cannot mean, or that somebody may not ask."""
import json
import os
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from book_layout import OFFSET  # noqa: E402
from node.node_case import NOBODY, NODE, Case  # noqa: E402
from node_client import BIN, GIB  # noqa: E402

NO_NUMBERS = ("6", True, 1.5, 1e308, 2 ** 64, 2 ** 63, -2 ** 63, [], {})


class Types(Case):
    def refused(self, field, method, path, body):
        with self.subTest(path=path, body=body):
            status, problem = self.ask(method, path, body)
            self.assertEqual((status, problem.get("id")), (400, "E1521"), problem)
            self.assertIn(f"'{field}'", problem["detail"])
            self.assertTrue(problem["fix"])

    def test_a_registration(self):
        folder = str(self.folder)
        uuid = self.get("/api/v1/devices")[0]["uuid"]
        for wrong in ("x", -1, True, 1.5, 1e308, 2 ** 64, [], *({uuid: amount} for amount in ("4GiB", -1, True, 1.5, 1e308, 2 ** 64, None, [], {}))):
            self.refused("guarantees", "POST", "/api/v1/workloads", {"folder": folder, "guarantees": wrong})
        for made in ("true", 1, [], {}):
            self.refused("made", "POST", "/api/v1/workloads", {"folder": folder, "made": made})
        for good in ({}, {"guarantees": None, "made": None}, {"guarantees": {}, "made": False}, {"guarantees": {uuid: GIB}, "made": True}):
            status, answer = self.ask("POST", "/api/v1/workloads", {"folder": folder, **good})
            self.assertEqual(status, 200, (good, answer))
        status, problem = self.ask("POST", "/api/v1/workloads", {"folder": folder, "guarantees": {uuid: 2 ** 64 - 1}})
        self.assertEqual(problem.get("id"), "E1304", "more than anybody has")

    def test_a_lease(self):
        for priority in NO_NUMBERS:
            self.refused("priority", "POST", "/api/v1/leases", {"bytes": GIB, "priority": priority})
        for good, shown in ((None, 0), (-7, -7), (5000, 1000)):
            status, answer = self.ask("POST", "/api/v1/leases", {"bytes": GIB, "priority": good})
            self.assertEqual((status, answer["data"]["priority"]), (201, shown))

    def test_texts_that_terminals_obey(self):
        for path, body in (("leases", {"bytes": GIB}), ("workloads", {"folder": str(self.folder)})):
            for wrong in ("\x1b[31mred", "right\u202eleft", "x" * 60):
                status, problem = self.ask("POST", "/api/v1/" + path, {**body, "tenant": wrong})
                self.assertEqual((status, problem.get("id")), (400, "E1409"), (path, wrong))
        status, answer = self.ask("POST", "/api/v1/leases", {"bytes": GIB, "command": "python -c 'a\nb'\x1b[31m"})
        self.assertEqual((status, answer["data"]["command"]), (201, "python -c 'a?b'?[31m"))

    def test_times_that_never_were_and_no_points(self):
        for wrong in ("from=2026-02-30", "from=2026-04-31T12:00:00Z", "to=2025-02-29", "points=0"):
            status, problem = self.ask("GET", "/api/v1/series?" + wrong)
            self.assertEqual((status, wrong.split("=")[0] in problem.get("detail", "")), (400, True), (wrong, problem))
        for good in ("from=2024-02-29&to=2024-03-01", "from=2026-01-31T23:59:60Z", "points=1"):
            self.assertEqual(self.ask("GET", "/api/v1/series?" + good)[0], 200, good)

    def test_a_change_to_nothing(self):
        for field in ("limit", "guarantee", "gpu"):
            for path in ("/api/v1/workloads/x", "/api/v1/tenants/x"):
                self.refused(field, "PATCH", path, {"limit": "4GiB", field: ""})
        self.assertEqual(self.ask("PATCH", "/api/v1/workloads/x", {"limit": "4GiB", "guarantee": None})[0], 404)


class Strangers(Case):
    """Without a configuration; asked by somebody who is nobody here."""

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)
        os.chmod(self.folder / "ration.sock", 0o666)
        self.theirs = self.folder / "theirs"
        (self.theirs / "books").mkdir(parents=True)
        for path in (self.theirs, self.theirs / "books"):
            os.chown(path, NOBODY, NOBODY)

    def lay(self, name, tenant, *options):
        """A book as nobody's program would write it, without having asked."""
        self.holding(name, "1GiB", "--limit", "2GiB", "--tenant", "somebody", *options)
        forged = bytearray(self.book(name).read_bytes())
        struct.pack_into("9s", forged, OFFSET["header.tenant"], tenant.encode())
        struct.pack_into("7s", forged, OFFSET["header.name"], b"forged")
        book = self.theirs / "books" / "forged.1.book"
        book.write_bytes(forged)
        os.chown(book, NOBODY, NOBODY)
        return book

    def test_nobody_is_charged_by_another_user(self):
        for tenant in ("root", "uid-0"):
            for path, body in (("/api/v1/workloads", {"folder": str(self.theirs)}), ("/api/v1/leases", {"bytes": GIB})):
                status, problem = self.as_nobody("POST", path, json.dumps({**body, "tenant": tenant}))
                self.assertEqual((status, problem["id"]), (403, "E1502"), problem)
                self.assertIn(f"nobody may not run as tenant {tenant}: that is the name of another user", problem["detail"])
        for tenant in ("", "nobody", "a-project"):
            status, answer = self.as_nobody("POST", "/api/v1/workloads", json.dumps({"folder": str(self.theirs), "tenant": tenant}))
            self.assertEqual((status, answer["data"]["tenant"]), (200, tenant or "nobody"))
        status, answer = self.ask("POST", "/api/v1/leases", {"bytes": GIB, "tenant": "nobody"})
        self.assertEqual((status, answer["data"]["tenant"]), (201, "nobody"), "an operator may")

    def test_a_priority_that_is_not_theirs_to_give_is_said_so(self):
        done = subprocess.run([BIN / "ration", "run", NODE, "--wait=100ms", "--limit", "1GiB", "--priority", "100", "--", "true"],
                              user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True,
                              env=dict(self.environment, RATION_SOCKET=str(self.folder / "ration.sock"), RATION_RUNTIME_DIR=str(self.theirs),
                                       RATION_SIM_DIR=str(self.theirs), HOME=str(self.theirs)))
        self.assertIn("priority 100 is lowered to 0", done.stderr)
        self.assertNotIn("counts as", self.ration("run", NODE, "--wait", "--limit", "1GiB", "--priority", "100", "--", "true").stderr)

    def as_them(self, *arguments):
        return subprocess.run([BIN / "ration", *map(str, arguments)], user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True,
                              env=dict(self.environment, RATION_SOCKET=str(self.folder / "ration.sock"), RATION_RUNTIME_DIR=str(self.theirs),
                                       RATION_SIM_DIR=str(self.theirs), HOME=str(self.theirs)))

    def on_the_same_gpu(self):
        """How nobody starts programs on the daemon's simulated GPU."""
        (device,) = (each.parent for each in self.folder.glob("*/shared"))  # the daemon's, which only root may use else
        for path in (device, *device.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        environment = dict(self.environment, RATION_SOCKET=str(self.folder / "ration.sock"), RATION_RUNTIME_DIR=str(self.theirs), HOME=str(self.theirs))
        return dict(user=NOBODY, group=NOBODY, extra_groups=[], text=True, env=environment)

    def test_everybody_may_wait_and_is_promised_what_was_granted(self):
        nobody = self.on_the_same_gpu()
        done = subprocess.run([BIN / "ration", "run", NODE, "--wait", "--limit", "1GiB", "--", "true"], capture_output=True, **nobody)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        program = subprocess.Popen([BIN / "ration", "run", NODE, "--wait", "--name", "waited", "--limit", "6GiB", "--", BIN / "ration-workload", "obey"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, **nobody)
        self.addCleanup(lambda: (program.kill(), program.communicate()))
        self.assertEqual(self.until(lambda: self.rows().get("waited"), "it runs")["guarantee_bytes"], 6 * GIB)
        self.stop(signal.SIGKILL)
        self.start()
        os.chmod(self.folder / "ration.sock", 0o666)
        self.assertEqual(self.until(lambda: self.rows().get("waited"), "it is known again")["guarantee_bytes"], 6 * GIB)
        self.assertEqual(self.events("violation"), [])
        self.holding("ours", "100MiB", "--limit", "1GiB")
        self.row("ours")
        theirs = subprocess.run([BIN / "ration", "stop", "ours", "--yes"], capture_output=True, **nobody)
        self.assertIn("E1502 ration: you may not end workload ours (owner root).", theirs.stderr)
        self.assertEqual(self.ration("stop", "waited", "--dry-run").stdout, "waited of nobody: would be ended\n")
        self.assertEqual(self.ration("stop", "waited", "--yes").stdout, "waited of nobody: ended\n")
        program.wait(60)
        # A lease promises what was granted, to who asked for it, and to nobody else.
        uuid = self.get("/api/v1/devices")[0]["uuid"]
        status, lease = self.ask("POST", "/api/v1/leases", {"bytes": GIB})
        for more, name in ((GIB, lease["data"]["lease"]), (GIB, "q-1"), (GIB, "q-99")):
            body = json.dumps({"folder": str(self.theirs), "book": str(self.theirs / "books/x.1.book"), "lease": name, "guarantees": {uuid: more}})
            status, problem = self.as_nobody("POST", "/api/v1/workloads", body)
            self.assertEqual((status, problem["id"]), (403, "E1502"), problem)

    def test_an_operator_ends_no_process_that_a_forged_book_lists(self):
        nobody = self.on_the_same_gpu()
        program = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "forged", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "100MiB"], stdout=subprocess.PIPE, start_new_session=True, **nobody)
        self.addCleanup(lambda: (os.killpg(program.pid, signal.SIGKILL), program.communicate()))
        self.assertIn("holding", program.stdout.readline())
        self.row("forged")
        victim = subprocess.Popen(["sleep", "600"])
        self.addCleanup(lambda: (victim.kill(), victim.wait()))
        started = int(open(f"/proc/{victim.pid}/stat").read().rsplit(")", 1)[1].split()[19])
        (book,) = self.theirs.glob("books/forged.*.book")
        with open(book, "r+b") as file:
            for field, kind, value in (("pid", "<I", victim.pid), ("start_time", "<Q", started)):
                file.seek(OFFSET[f"slots[0].{field}"])
                file.write(struct.pack(kind, value))
        self.until(lambda: victim.pid in [each["pid"] for row in self.get("/api/v1/workloads") if row["workload"] == "forged" for each in row["processes"]], "it is listed")
        self.assertIn("E1502 ration: forged did not end", self.ration("stop", "forged", "--yes", "--grace", "100ms").stderr)
        self.assertIsNone(victim.poll())

    def test_nobody_keeps_memory_from_others_by_himself(self):
        uuid = self.get("/api/v1/devices")[0]["uuid"]
        body = json.dumps({"folder": str(self.theirs), "guarantees": {uuid: 8 * GIB}})
        status, problem = self.as_nobody("POST", "/api/v1/workloads", body)
        self.assertEqual((status, problem["id"]), (403, "E1502"), problem)
        self.assertIn("reserved for nobody: that tenant has no guarantee on this GPU", problem["detail"])
        self.assertTrue(problem["fix"])
        status, problem = self.as_nobody("POST", "/api/v1/leases", json.dumps({"bytes": 8 * GIB, "guarantee": 8 * GIB}))
        self.assertEqual((status, problem["id"]), (403, "E1502"), problem)
        done = self.as_them("split", NODE, "0", "--into", "1")
        self.assertEqual((done.returncode, done.stderr.split()[0]), (5, "E1502"), done.stderr)
        self.assertIn("only an operator may cut GPU 0 into slices", done.stderr)
        self.assertEqual(self.as_them("split", NODE).returncode, 0, "to look is not to cut")
        self.assertEqual(self.as_nobody("POST", "/api/v1/workloads", json.dumps({"folder": str(self.theirs)}))[0], 200)
        self.stop()
        (self.folder / "ration.toml").write_text('[[tenant]]\nname = "lab"\nmatch = { users = ["nobody"] }\nguarantee = "8GiB"\n')
        self.start()
        os.chmod(self.folder / "ration.sock", 0o666)
        status, answer = self.as_nobody("POST", "/api/v1/workloads", body)
        self.assertEqual(status, 200, answer)
        more = json.dumps({"folder": str(self.theirs), "guarantees": {uuid: 9 * GIB}})
        self.assertEqual(self.as_nobody("POST", "/api/v1/workloads", more)[1]["id"], "E1502")

    def test_nor_by_a_book_that_keeps_memory(self):
        self.lay("train", "nobody", "--guarantee", "2GiB")
        self.assertEqual(self.as_nobody("POST", "/api/v1/workloads", json.dumps({"folder": str(self.theirs)}))[0], 200)
        told = self.until(lambda: self.events("violation"), "it is told")[0]["text"]
        self.assertIn("forged asked for a guarantee of 2.00 GiB that cannot be met: 2.00 GiB of GPU 0 may not be reserved for nobody", told)
        self.assertEqual(self.row("forged")["guarantee_bytes"], 0)

    def test_a_split_asks_before_it_takes_away(self):
        self.holding("train", "10GiB", "--limit", "12GiB")
        self.row("train")
        done = self.ration("split", NODE, "0", "--sizes", "12GiB", "--names", "mine")
        self.assertEqual((done.returncode, "E1205" in done.stderr), (4, True), done.stderr)
        self.assertRegex(done.stderr, "ration split .*--sizes 12GiB --names mine --yes")
        self.assertIn("no slices", self.ration("split", NODE).stdout)
        self.assertEqual(self.ration("split", NODE, "0", "--sizes", "4GiB").returncode, 0, "there is room beside it")
        self.assertEqual(self.ration("split", NODE, "0", "--sizes", "12GiB", "--yes").returncode, 0)
        self.until(lambda: self.row("train")["shrinking"], "it gives back")
        for event in self.events("rebalanced"):
            self.assertNotRegex(event["text"], "guaranteed to *($|[.;,])")

    def test_a_fix_is_one_that_its_reader_may_type(self):
        nobody = self.on_the_same_gpu()
        program = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "mine", "--limit", "1GiB", "--", BIN / "ration-workload", "obey"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, **nobody)
        self.addCleanup(lambda: (program.kill(), program.communicate()))
        program.stdin.write("take 2048\n")
        program.stdin.flush()
        self.assertNotEqual(program.stdout.readline(), "0\n")
        theirs = subprocess.run([BIN / "ration", "why", "mine"], capture_output=True, **nobody)
        self.assertRegex(theirs.stdout, r"(?m)^fix +Ask root or a member of group ration: ration set .*mine", theirs.stderr)
        self.assertRegex(self.ration("why", "mine").stdout, r"(?m)^fix +ration set .*mine")

    def test_nor_by_a_book_that_names_one(self):
        self.lay("train", "root")
        self.assertEqual(self.as_nobody("POST", "/api/v1/workloads", json.dumps({"folder": str(self.theirs)}))[0], 200)
        row = self.row("forged")
        self.assertEqual((row["user"], row["tenant"]), ("nobody", "nobody"))
        self.assertIn("names tenant root, to which nobody does not belong", self.until(lambda: self.events("violation"), "it is told")[0]["text"])

    def test_where_somebody_elses_book_lies_is_told_to_nobody(self):
        book = self.lay("train", "nobody")
        self.assertEqual(self.as_nobody("POST", "/api/v1/workloads", json.dumps({"folder": str(self.theirs)}))[0], 200)
        self.row("forged")
        with open(book, "r+b") as file:
            file.write(b"garbage!")
        altered = self.until(lambda: self.events("violation"), "it is told")[0]
        self.assertEqual((altered["workload"], altered["user"]), ("forged", "nobody"))
        self.assertIn("nobody/forged was altered", altered["text"])
        unread = self.theirs / "books" / "other.2.book"
        unread.write_bytes(bytes(100))
        os.chown(unread, NOBODY, NOBODY)
        os.utime(unread, (0, 0))
        lost = self.until(lambda: self.events("guard_lost"), "the next is told")[0]
        self.assertIn("nobody", lost["text"])
        self.assertNotIn(str(self.folder), json.dumps(self.events("guard_lost", "violation")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
