#!/usr/bin/env python3
"""The daemon on a simulated GPU: real workloads, real kills, other users, hostile books, all through the installed program."""
import getpass
import http.client
import json
import os
import pathlib
import random
import re
import resource
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from book_layout import OFFSET  # noqa: E402
from node.node_case import NOBODY, NODE, Case  # noqa: E402
from node_client import BIN, GIB, MIB, PATIENCE, UnixConnection  # noqa: E402


class Watching(Case):
    def test_a_socket_of_the_configuration_is_found(self):
        self.stop()
        file = self.folder / "ration.toml"
        file.write_text(file.read_text().replace("[daemon]", f'[daemon]\nsocket = "{self.folder}/elsewhere.sock"'))
        self.start()
        self.assertFalse((self.folder / "ration.sock").exists())
        self.assertEqual(json.loads(self.ration("ps", NODE, "-o", "json").stdout)["source"], "daemon")

    def test_everything_that_holds_memory_is_shown_and_adds_up(self):
        self.holding("train", "2GiB", "--limit", "3GiB", "--guarantee", "1GiB", "--tenant", "nlp", "--label", "exp=42")
        row = self.row("train")
        self.assertEqual((row["limit_bytes"], row["guarantee_bytes"], row["tenant"], row["labels"]), (3 * GIB, GIB, "nlp", "exp=42"))
        self.assertEqual(row["used_bytes"], 2 * GIB + 64 * MIB)
        self.assertEqual(row["processes"][0]["driver_used_bytes"], row["used_bytes"])
        device = self.get("/api/v1/devices")[0]
        parts = self.get("/api/v1/devices/0/explain")["rows"]
        self.assertEqual(sum(part["bytes"] for part in parts), device["total_bytes"])

    EVADES = ("import ctypes, sys, time\n"
              "pointer, context = ctypes.c_void_p(), ctypes.c_void_p()\n"
              "for name, size in (('libcuda.so.1', 1 << 20), (sys.argv[1], 1 << 30)):\n"
              "    driver = ctypes.CDLL(name)\n"
              "    assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
              "    assert driver.cuCtxSetCurrent(context) == 0 and driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0\n"
              "print('holding', flush=True)\n"
              "time.sleep(600)\n")

    def test_who_takes_memory_beside_its_book_is_a_violator(self):
        copy = self.folder / "libanother.so"
        # Whatever still has the driver's own name inside is held.
        copy.write_bytes((BIN.parent / "sim/libcuda.so.1").read_bytes().replace(b"libcuda.so.1\0", b"another.so.1\0"))
        process = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "sly", "--limit", "2GiB", "--", "python3", "-c", self.EVADES, copy],
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        self.assertIn("holding", process.stdout.readline())
        event = self.until(lambda: self.events("violation"), "the violation")[0]
        self.assertRegex(event["text"], r"pid \d+ of \w+/sly uses 1\.\d+ GiB according to the driver, but 66\.0 MiB according to its book")
        self.assertEqual([process["state"] for process in self.row("sly")["processes"]], ["violator"])
        self.assertEqual(self.row("sly")["used_bytes"], self.row("sly")["processes"][0]["driver_used_bytes"], "that is what it is charged")
        self.assertEqual(len(self.events("violation")), 1, "told once")

    def test_a_process_outside_is_named(self):
        environment = dict(self.environment, LD_LIBRARY_PATH=str(BIN.parent / "sim"), RATION_SIM=NODE[6:])
        outsider = subprocess.Popen([BIN / "ration-workload", "hold", "1GiB"], env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (outsider.kill(), outsider.communicate()))
        outsider.stdout.readline()
        row = self.row(None)
        self.assertEqual((row["governed"], row["processes"][0]["pid"]), (False, outsider.pid))
        self.assertGreaterEqual(row["used_bytes"], GIB)
        event = self.until(lambda: self.events("ungoverned"), "an event of the process outside")[0]
        self.assertEqual(event["pid"], outsider.pid)
        self.assertIn("UNGOVERNED", self.ration("ps", NODE).stdout)

    def test_the_command_line_and_http_show_the_same(self):
        self.holding("train", "1GiB", "--limit", "3GiB")
        self.row("train")
        document = json.loads(self.ration("ps", NODE, "-o", "json").stdout)
        self.assertEqual(document["source"], "daemon")
        fields = ("workload", "used_bytes", "limit_bytes", "peak_bytes", "denials", "run")
        self.assertEqual([{field: row[field] for field in fields} for row in document["data"]],
                         [{field: row[field] for field in fields} for row in self.get("/api/v1/workloads")])

    def test_a_denial_is_an_event_with_its_reason(self):
        self.ration("run", NODE, "--name", "greedy", "--limit", "1GiB", "--tenant", "nlp", "--", BIN / "ration-workload", "hold", "2GiB")
        event = self.until(lambda: self.events("denied"), "the denial")[0]
        self.assertEqual((event["workload"], event["tenant"], event["bytes"]), ("greedy", "nlp", 2 * GIB))
        why = self.ration("why", event["denial"])
        self.assertIn("greedy held", why.stdout)
        self.assertEqual(self.get("/api/v1/denials/" + event["denial"])["id"], event["id"])
        # The book may go: the daemon remembers.
        self.book("greedy").unlink()
        self.assertIn("greedy held", self.ration("why", event["denial"]).stdout)

    def test_runs_begin_and_end_in_the_log(self):
        done = self.ration("run", NODE, "--name", "short", "--limit", "1GiB", "--", "sh", "-c", "exit 7")
        self.assertEqual(done.returncode, 7)
        ended = self.until(lambda: self.events("ended"), "its end")[0]
        self.assertIn("ended with 7", ended["text"])
        self.assertEqual([event["type"] for event in self.events("started", "ended")], ["started", "ended"])

    def test_events_are_followed_as_they_happen(self):
        follower = subprocess.Popen([BIN / "ration", "events", "-f", "--type", "denied", "-o", "json"], env=self.environment,
                                    stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (follower.kill(), follower.communicate()))
        self.until(lambda: self.get("/api/v1/health")["stream_clients"], "the follower")
        self.ration("run", NODE, "--name", "greedy", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
        self.assertEqual(json.loads(follower.stdout.readline())["workload"], "greedy")

    def test_metrics_are_well_formed(self):
        self.holding("train", "1GiB", "--limit", "3GiB", "--tenant", 'a\\c')
        self.row("train")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", "/metrics", headers={"Authorization": "Bearer " + (self.folder / "state/token").read_text().strip()})
        text = connection.getresponse().read().decode()
        self.assertIn('tenant="a\\\\c"', text)
        families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
        self.assertEqual(len(families), len(set(families)))
        self.assertNotIn("pid=", text)
        checker = pathlib.Path("/usr/bin/promtool")
        if checker.exists():
            done = subprocess.run([checker, "check", "metrics"], input=text, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))


class Changing(Case):
    def test_a_limit_holds_from_the_next_allocation(self):
        self.holding("train", "1GiB", "--limit", "3GiB")
        done = self.ration("set", "train", "--limit", "2GiB", NODE)
        self.assertEqual(done.returncode, 0, done.stderr)
        limit = struct.unpack_from("<Q", self.book("train").read_bytes(), OFFSET["accounts[0].limit"])[0]
        self.assertEqual(limit, 2 * GIB, "the book has it when the command returns")
        self.assertEqual(self.row("train")["limit_bytes"], 2 * GIB)
        event = self.events("resized")[0]
        self.assertEqual((event["old"], event["new"], event["workload"]), (str(3 * GIB), str(2 * GIB), "train"))

    def test_a_book_that_says_otherwise_is_put_right_and_told(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.until(lambda: self.events("started"), "its start")
        with open(self.book("train"), "r+b") as book:
            book.seek(OFFSET["accounts[0].limit"])
            book.write(struct.pack("<Q", 12 * GIB))
        event = self.until(lambda: self.events("violation"), "the violation")[0]
        self.assertEqual((event["old"], event["new"]), (str(12 * GIB), str(2 * GIB)))
        self.assertEqual(struct.unpack_from("<Q", self.book("train").read_bytes(), OFFSET["accounts[0].limit"])[0], 2 * GIB)

    def write_book(self, name, offset, content):
        with open(self.book(name), "r+b") as book:
            book.seek(offset)
            book.write(content)

    def test_a_book_that_changes_its_devices_keeps_its_place_and_harms_nobody(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.holding("sly", "1GiB", "--limit", "2GiB")
        self.row("sly")
        book = self.book("sly").read_bytes()
        accounts = struct.unpack_from("<I", book, OFFSET["header.account_count"])[0]
        first, second = OFFSET["accounts[0]"], OFFSET["accounts[1]"]
        for account in range(accounts, 16):
            self.write_book("sly", first + account * (second - first), book[first:second])
        self.write_book("sly", OFFSET["header.account_count"], struct.pack("<I", 16))
        event = self.until(lambda: self.events("violation"), "it is told")[0]
        self.assertIn("sly was altered: its devices were changed", event["text"])
        self.assertEqual((self.row("sly")["book_altered"], self.row("sly")["limit_bytes"]), ("its devices were changed", 2 * GIB))
        self.assertNotIn("book_altered", self.row("train"))

    def test_a_book_stays_who_it_was(self):
        self.holding("train", "1GiB", "--limit", "2GiB", "--label", "team=a")
        before = self.row("train")
        self.write_book("train", OFFSET["header.name"], b"other\0")
        self.write_book("train", OFFSET["header.slice"], b"slice\0")
        self.write_book("train", OFFSET["header.labels"], b"team=b\0")
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 2, "two looks")
        after = self.row("train")
        self.assertEqual({key: after[key] for key in ("workload", "labels", "slice", "run")}, {key: before[key] for key in ("workload", "labels", "slice", "run")})

    def ghost(self, like, name, run, limit, guarantee, held):
        """A book that nobody is behind but a `ration run` of another one, without memory of a device."""
        path = self.book(like)
        content = bytearray(path.read_bytes())
        runner = int(subprocess.run(["pgrep", "-f", f"ration run .*--name {like} "], capture_output=True, text=True).stdout.split()[0])
        start = int(pathlib.Path(f"/proc/{runner}/stat").read_text().rsplit(")", 1)[1].split()[19])
        for field, form, values in (("header.run_number", "<Q", [run]), ("header.name", "64s", [name.encode()]),
                                    ("accounts[0].limit", "<QQQ", [limit, guarantee, held]), ("slots[0].parts[0].all.held", "<Q", [held]),
                                    ("header.creator_pid", "<i", [runner]), ("header.creator_start_time", "<Q", [start]),
                                    ("slots[0].pid", "<i", [runner]), ("slots[0].start_time", "<Q", [start])):
            struct.pack_into(form, content, OFFSET[field], *values)
        fresh = self.folder / "ghost.new"
        fresh.write_bytes(content)
        fresh.rename(self.folder / f"books/{name}.{run}.book")

    def test_a_book_without_anything_behind_it_costs_nobody_else(self):
        self.holding("big", "12GiB", "--limit", "13GiB")
        self.holding("w", "64MiB", "--limit", "1GiB")
        self.row("w")
        self.ghost("w", "ghost", 9000, 16 * GIB, 0, 15 * GIB)
        self.until(lambda: "ghost" in self.rows(), "it is read")
        parts = {part["id"]: part["bytes"] for part in self.get("/api/v1/devices/0/explain")["rows"]}
        self.assertEqual((parts["ghost"], parts["big"]), (0, 12 * GIB + 64 * MIB), "the driver knows better")
        self.assertEqual(sum(bytes or 0 for bytes in parts.values()), 16 * GIB)

        def charged():
            rows = {row["name"]: row for row in self.get("/api/v1/reports/usage?window=1h&by=workload")["rows"]}
            return float(rows["root/big"]["used_byte_seconds"]) if "root/big" in rows else None
        before = self.until(charged, "the first account")
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 3 and charged() > before + 12 * GIB, "a second of its real use")

    def test_a_limit_that_was_moved_is_told_before_the_daemon_ends(self):
        self.holding("serve", "1GiB", "--limit", "8GiB", "--guarantee", "6GiB")
        self.holding("other", "64MiB", "--limit", "12GiB")
        self.until(lambda: self.row("other")["limit_bytes"] < 12 * GIB, "it yields")
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 2, "nothing changes any more")
        limit = self.row("other")["limit_bytes"]
        self.stop()
        self.start()
        told = [event for event in self.events("rebalanced") if event["workload"] == "other"]
        self.assertEqual((told[0]["old"], told[-1]["new"]), (str(12 * GIB), str(limit)))
        for before, after in zip(told, told[1:]):
            self.assertEqual(before["new"], after["old"], "they follow each other")

    def test_a_promise_that_cannot_be_kept_moves_nobody(self):
        self.holding("serve", "1GiB", "--limit", "8GiB", "--guarantee", "6GiB")
        self.holding("other", "64MiB", "--limit", "3GiB")
        self.row("other")
        self.until(lambda: self.row("serve")["limit_bytes"] == 8 * GIB, "it may have all")
        moved = len(self.events("rebalanced"))
        self.ghost("other", "grab", 9001, 15 * GIB, 15 * GIB, 0)
        self.assertIn("asked for a guarantee of 15.0 GiB", self.until(lambda: self.events("violation"), "it is told")[0]["text"])
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 2, "two looks")
        self.assertEqual([event["text"] for event in self.events("rebalanced")[moved:] if "grab" not in event["text"]], [])
        self.assertEqual(self.row("serve")["limit_bytes"], 8 * GIB)

    def test_who_comes_back_brings_no_promise_that_was_given_to_others(self):
        self.holding("a", "1GiB", "--guarantee", "10GiB", "--limit", "10GiB")
        self.row("a")
        self.assertEqual(self.ration("suspend", "a").returncode, 0)
        self.assertEqual(self.ration("split", "0", "--into", "2", NODE).returncode, 0)
        self.assertEqual(self.ration("resume", "a").returncode, 0)
        self.until(lambda: self.row("a")["guarantee_bytes"] == 0, "its guarantee is in the slices now")
        self.assertIn("a was resumed without its guarantee of 10.0 GiB", self.events("rebalanced")[-1]["text"])
        self.assertEqual(self.get("/api/v1/devices")[0]["promised_bytes"], 16 * GIB)

    def test_what_is_set_while_no_daemon_runs_is_kept_when_one_starts(self):
        self.holding("train", "512MiB", "--limit", "2GiB")
        self.holding("serve", "1GiB", "--limit", "2GiB")
        self.row("train"), self.row("serve")
        for how, limit in ((signal.SIGTERM, 4 * GIB), (signal.SIGKILL, 1 * GIB)):
            with self.subTest(limit=limit):
                self.stop(how)
                done = self.ration("set", "train", NODE, "--limit", f"{limit}B")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(self.ration("set", "train", NODE, "--guarantee", "512MiB").returncode, 0)
                self.start()
                self.until(lambda: (self.row("train")["limit_bytes"], self.row("train")["guarantee_bytes"]) == (limit, 512 << 20), "it holds")
                self.assertEqual(self.row("serve")["limit_bytes"], 2 * GIB)
        self.assertEqual(self.events("violation"), [])
        told = self.events("resized")
        self.assertEqual([event["new"] for event in told if "limit" in event["text"]], [str(4 * GIB), str(1 * GIB)], told)
        # What the daemon was asked since is newer than the file beside the books.
        self.assertEqual(self.ration("set", "train", "--limit", "3GiB").returncode, 0)
        self.stop()
        self.start()
        self.assertEqual(self.row("train")["limit_bytes"], 3 * GIB)

    def test_what_a_program_wrote_while_no_daemon_ran_is_put_back(self):
        self.holding("sly", "512MiB", "--limit", "2GiB")
        self.row("sly")
        self.stop()
        self.assertEqual(self.ration("set", "sly", NODE, "--limit", "3GiB").returncode, 0)
        self.write_book("sly", OFFSET["accounts[0].limit"], struct.pack("<Q", 12 * GIB))
        self.start()
        event = self.until(lambda: self.events("violation"), "it is told")[0]
        self.assertIn("changed its own limit to 12.0 GiB; it was put back to 2.00 GiB", event["text"])
        self.until(lambda: self.row("sly")["limit_bytes"] == 2 * GIB, "it is put back")

    @unittest.skipUnless(os.getuid() == 0, "needs to become another user")
    def test_a_user_may_lower_a_limit_while_no_daemon_runs_and_not_raise_it(self):
        self.folder.chmod(0o755)
        theirs = self.folder / "theirs"
        theirs.mkdir()
        own = dict(self.environment, RATION_RUNTIME_DIR=str(theirs), HOME=str(theirs))
        self.stop()
        root, self.environment = self.environment, dict(self.environment, RATION_RUNTIME_DIR=str(theirs))
        self.holding("job", "512MiB", "--limit", "2GiB")
        self.environment = root
        for path in (theirs, *theirs.rglob("*")):
            os.chown(path, NOBODY, NOBODY)

        def put(limit):
            self.stop()
            done = subprocess.run([BIN / "ration", "set", "job", NODE, "--limit", limit], user=NOBODY, group=NOBODY, extra_groups=[],
                                  capture_output=True, text=True, env=own)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.start()

        self.start()
        self.assertEqual(self.as_nobody("POST", "/api/v1/workloads", json.dumps({"folder": str(theirs), "tenant": "nobody"}))[0], 200)
        self.assertEqual(self.row("job")["limit_bytes"], 2 * GIB)
        put("4GiB")
        self.until(lambda: self.row("job")["limit_bytes"] == 2 * GIB, "it is put back")
        self.assertEqual([event["text"] for event in self.events("resized", "violation")],
                         ["nobody/job: the limit was set to 4.00 GiB while no daemon ran; it was put back to 2.00 GiB"])
        put("1GiB")
        self.assertEqual(self.row("job")["limit_bytes"], 1 * GIB)
        self.assertEqual(self.events("violation"), [])

    def test_a_book_cannot_promise_itself_what_is_not_there(self):
        self.holding("serve", "1GiB", "--limit", "15GiB", "--guarantee", "15GiB")
        self.holding("sly", "512MiB", "--limit", "2GiB")
        self.row("sly")
        self.stop(signal.SIGKILL)
        (self.folder / "state/limits.json").unlink()
        self.write_book("sly", OFFSET["accounts[0].limit"], struct.pack("<QQ", 2 * GIB, 2 * GIB))
        self.start()
        event = self.until(lambda: self.events("violation"), "it is told")[0]
        self.assertIn("asked for a guarantee of 2.00 GiB", event["text"])
        self.until(lambda: self.row("sly")["guarantee_bytes"] == 0, "it has none")
        self.assertEqual(self.row("serve")["guarantee_bytes"], 15 * GIB, "who came first")

    def test_a_book_that_holds_more_than_the_device_spoils_nobodys_accounts(self):
        self.holding("boaster", "1GiB", "--limit", "2GiB")  # the first by time and by name
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.row("train")
        boast = 1 << 42
        self.forge_held("boaster", boast)
        self.until(lambda: self.row("boaster")["used_bytes"] == boast, "the daemon reads it")

        def charged(name):
            report = self.get("/api/v1/reports/usage?window=1h&by=workload")
            self.assertTrue(report["adds_up"])
            return next((float(row["used_byte_seconds"]) for row in report["rows"] if row["name"] == name), 0)
        for _ in range(3):  # the first is of the time before
            before = charged("root/train")
            self.until(lambda: charged("root/train") > before, "the other's account goes on")
        self.assertEqual(self.events("guard_lost"), [])

    def test_names_of_any_bytes_end_nobody(self):
        self.holding("odd", "1GiB", "--limit", "2GiB", "--label", "a=bcd")
        with open(self.book("odd"), "r+b") as book:  # nobody may type them
            content = book.read()
            for good, bad in ((b"odd\0", b"x\xff\0"), (b"a=bcd\0", b"a=\xfe\xc2\x9b\0")):
                book.seek(content.index(good))
                book.write(bad)
        self.until(lambda: self.get("/api/v1/reports/usage?window=1h&by=workload")["rows"], "an account")
        for form in ("opencost", "focus", "csv", "md", "json"):
            connection = UnixConnection(self.folder / "ration.sock")
            connection.request("GET", f"/api/v1/reports/usage?window=1h&format={form}")
            self.assertEqual(connection.getresponse().status, 200, form)
            connection.close()
        self.assertIsNone(self.daemon.poll())

    @unittest.skipUnless(os.getuid() == 0, "needs to become another user")
    def test_labels_of_others_are_in_no_report_of_a_stranger(self):
        os.chmod(self.folder, 0o755)
        os.chmod(self.folder / "ration.sock", 0o666)
        self.holding("lab", "1GiB", "--limit", "2GiB", "--label", "secret=hunter2")
        theirs = self.folder / "theirs"
        theirs.mkdir()
        os.chown(theirs, NOBODY, NOBODY)
        stranger = subprocess.run([BIN / "ration", "explain", "lab", NODE, "--socket", self.folder / "ration.sock"], user=NOBODY, group=NOBODY,
                                  extra_groups=[], capture_output=True, text=True, env=dict(self.environment, RATION_RUNTIME_DIR=str(theirs), HOME=str(theirs)))
        self.assertEqual((stranger.returncode, stranger.stderr.split()[:1]), (5, ["E1502"]), stranger.stderr)
        path = "/api/v1/reports/usage?window=1h&by=label:secret"
        self.until(lambda: "hunter2" in json.dumps(self.get(path)), "an operator sees it")
        self.assertNotIn("hunter2", json.dumps(self.as_nobody("GET", path)))
        for form in ("focus", "opencost"):
            done = subprocess.run(["curl", "-s", "--unix-socket", self.folder / "ration.sock", f"http://localhost/api/v1/reports/usage?window=1h&format={form}"],
                                  user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True)
            self.assertIn("lab", done.stdout)
            self.assertNotIn("hunter2", done.stdout)

    def test_changes_are_refused_as_the_command_line_refuses_them(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        for arguments, code, error in ((("train", "--limit", "4096"), 2, "E1101"), (("train", "--limit", "99GiB"), 2, "E1104"),
                                       (("trian", "--limit", "3GiB"), 3, "E1801"), (("train", "--guarantee", "3GiB"), 2, "E1305"),
                                       (("train", "--limit", "3GiB", "--gpu", "7"), 3, "E1801")):
            with self.subTest(arguments=arguments):
                done = self.ration("set", *arguments, NODE)
                self.assertEqual((done.returncode, done.stderr.split()[0]), (code, error), done.stderr)
        self.assertEqual(self.events("resized"), [])

    def test_shrinking_below_what_is_held_needs_a_yes(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.assertEqual(self.ration("set", "train", "--limit", "512MiB", NODE).returncode, 4)
        self.assertEqual(self.ration("set", "train", "--limit", "512MiB", "--yes", NODE).returncode, 0)
        self.assertEqual(self.row("train")["state"], "shrinking")

    def test_who_was_faster_is_told(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        changes = self.row("train")["limit_changes"]
        headers = {"If-Match": f'"{changes}"'}
        self.assertEqual(self.ask("PATCH", "/api/v1/workloads/train", {"limit": "3GiB"}, **headers)[0], 200)
        status, problem = self.ask("PATCH", "/api/v1/workloads/train", {"limit": "4GiB"}, **headers)
        self.assertEqual((status, problem["id"]), (412, "E1503"))
        self.assertEqual(self.row("train")["limit_bytes"], 3 * GIB)

    def test_a_dry_run_changes_nothing(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        status, answer = self.ask("PATCH", "/api/v1/workloads/train?dry_run=1", {"limit": "512MiB"})
        self.assertEqual((status, answer["data"]["changes"][0]["shrinking"], answer["data"]["changes"][0]["applied"]), (200, True, False))
        self.assertEqual(self.row("train")["limit_bytes"], 2 * GIB)

    def test_a_guarantee_is_kept_free_of_others(self):
        self.holding("burst", "8GiB", "--limit", "16GiB")
        self.holding("serve", "1GiB", "--limit", "8GiB", "--guarantee", "6GiB")
        row = self.until(lambda: (lambda row: row if row["limit_bytes"] <= 10 * GIB else None)(self.row("burst")), "a lower limit")
        self.assertEqual(row["configured_limit_bytes"], 16 * GIB)
        self.assertIn("serve", row["held_back_by"])
        total = sum(max(each["limit_bytes"], each["used_bytes"]) for each in self.rows().values() if each["governed"])
        self.assertLessEqual(total, 16 * GIB)


class Orphaned(Case):
    """Memory that is in use and of no process, as one leaves behind that hangs in the kernel while it dies."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "node.toml"
        path.write_text('[[device]]\nmodel = "T4"\nmemory = "16GiB"\ncontext = "64MiB"\nreserved = "456MiB"\norphaned = "2GiB"\n')
        self.node = f"--sim={path}"
        super().setUp()

    def test_it_is_named_and_counted_once(self):
        event = self.until(lambda: self.events("orphaned"), "the event")[0]
        self.assertEqual((event["gpu"], event["bytes"]), (0, 2 * GIB))
        self.assertIn("no process has /dev/nvidia0 open", event["text"])
        with subprocess.Popen([BIN / "ration", "run", self.node, "--limit", "4GiB", "--name", "train", "--", BIN / "ration-workload", "hold", "1GiB"],
                              env=self.environment, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            device = self.get("/api/v1/devices")[0]
            parts = {part["id"]: part["bytes"] for part in self.get("/api/v1/devices/0/explain")["rows"]}
            self.assertEqual((device["orphaned_bytes"], device["unexplained_bytes"]), (2 * GIB, 456 * MIB))
            self.assertEqual((parts["train"], parts["orphaned"], parts["unexplained"]), (GIB + 64 * MIB, 2 * GIB, 456 * MIB))
            self.assertEqual(sum(parts.values()), device["total_bytes"])
            process.terminate()
        self.assertEqual(len(self.events("orphaned")), 1)
        self.stop()
        alone = json.loads(self.ration("explain", "--gpu", "0", self.node, "-o", "json").stdout)["data"]
        self.assertEqual({row["id"]: row["bytes"] for row in alone["rows"] if row["id"] != "free"}, {"orphaned": 2 * GIB, "unexplained": 456 * MIB})
        checked = self.ration("doctor", self.node, "--only", "mem.orphaned")
        self.assertIn("GPU 0: 2.00 GiB", checked.stdout)


class Configured(Case):
    configuration = """
[[tenant]]
name = "nlp"
limit = "4GiB"
[[tenant]]
name = "ops"
match = { users = ["nobody-of-that-name"] }
"""

    def test_a_tenants_workloads_share_its_limit(self):
        self.holding("one", "2GiB", "--limit", "4GiB", "--tenant", "nlp")
        self.holding("two", "1GiB", "--limit", "4GiB", "--tenant", "nlp")
        self.until(lambda: sum(row["limit_bytes"] for row in self.rows().values()) <= 4 * GIB, "limits within the tenant's")
        self.assertEqual(self.get("/api/v1/tenants")[0]["accounts"][0]["limit_bytes"], 4 * GIB)

    def test_what_the_tenant_has_left_is_there_for_whoever_asks(self):
        self.holding("one", "1GiB", "--limit", "4GiB", "--tenant", "nlp")
        program = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "two", "--limit", "4GiB", "--tenant", "nlp", "--",
                                    BIN / "ration-workload", "obey"], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (program.kill(), program.communicate()))

        def take(mib):
            program.stdin.write(f"take {mib}\n")
            program.stdin.flush()
            return int(program.stdout.readline())
        self.assertEqual(take(1), 0)
        self.until(lambda: self.row("two")["limit_bytes"] < 2 * GIB, "the tenant's room was divided")
        self.assertEqual(take(2560), 0, "more than its part, and there for it")
        self.assertEqual(take(1024), 2, "more than the tenant has")
        denial = self.until(lambda: self.events("denied"), "its refusal")[0]["denial"]
        # Two seconds are for a daemon that does not look. This one has looked, and has no more to give.
        self.assertLess(self.get("/api/v1/denials/" + denial)["waited_seconds"], 2)
        self.assertEqual(take(64), 0, "what is left of it is there all the same")

    @unittest.skipUnless(os.getuid() == 0, "needs to become another user")
    def test_nobody_is_charged_for_a_book_that_somebody_else_wrote(self):
        os.chmod(self.folder, 0o755)
        self.holding("train", "1GiB", "--limit", "2GiB", "--tenant", "nlp")
        forged = bytearray(self.book("train").read_bytes())
        struct.pack_into("4s", forged, OFFSET["header.tenant"], b"ops")
        struct.pack_into("7s", forged, OFFSET["header.name"], b"forged")
        folder = self.folder / "theirs"
        (folder / "books").mkdir(parents=True)
        (folder / "books" / "forged.1.book").write_bytes(forged)
        for path in (folder, folder / "books", folder / "books" / "forged.1.book"):
            os.chown(path, NOBODY, NOBODY)
        status, answer = self.as_nobody("POST", "/api/v1/workloads", json.dumps({"folder": str(folder), "tenant": "nlp"}))
        self.assertEqual(status, 200, answer)
        row = self.row("forged")
        self.assertEqual((row["user"], row["tenant"]), ("nobody", "nobody"))
        self.assertIn("ops", self.until(lambda: self.events("violation"), "the violation")[0]["text"])
        # Somebody else's folder is not theirs to show.
        self.assertEqual(self.as_nobody("POST", "/api/v1/workloads", json.dumps({"folder": str(self.folder)}))[0], 403)
        self.assertEqual(self.as_nobody("POST", "/api/v1/leases", json.dumps({"bytes": GIB, "tenant": "ops"}))[0], 403)

    def test_an_unknown_tenant_is_refused_with_the_nearest_name(self):
        done = self.ration("run", NODE, "--tenant", "nlq", "--limit", "1GiB", "--", "true")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("E1801", done.stderr)
        self.assertIn("nlp", done.stderr)

    def last_reload(self):
        """What the metrics, the daemon's health and the doctor say about it."""
        connection = UnixConnection(self.folder / "ration.sock")
        connection.request("GET", "/metrics")
        (metric,) = re.findall(r"^ration_config_last_reload_successful (.)$", connection.getresponse().read().decode(), re.M)
        connection.close()
        (check,) = [check for check in self.get("/api/v1/health")["checks"] if check["id"] == "config"]
        done = self.ration("doctor", NODE, "--only", "daemon")
        self.assertEqual("limti" in done.stdout, check["status"] == "warn", done.stdout)
        return metric, check["status"]

    def test_a_wrong_configuration_is_refused_whole(self):
        good = (self.folder / "ration.toml").read_text()
        (self.folder / "ration.toml").write_text(good.replace('"4GiB"', '"5GiB"') + '[defaults]\nlimti = "1GiB"\n')
        status, problem = self.ask("POST", "/api/v1/reload", {})
        self.assertEqual((status, problem["id"]), (400, "E1601"))
        self.assertIn("limti", problem["detail"])
        self.assertEqual(self.get("/api/v1/tenants")[0]["accounts"][0]["limit_bytes"], 4 * GIB)
        self.assertEqual(self.last_reload(), ("0", "warn"))
        (self.folder / "ration.toml").write_text(good.replace('"4GiB"', '"5GiB"'))
        status, answer = self.ask("POST", "/api/v1/reload", {})
        self.assertEqual(status, 200)
        self.assertIn("4GiB → 5GiB", answer["data"]["changes"][0])
        self.assertEqual(self.get("/api/v1/tenants")[0]["accounts"][0]["limit_bytes"], 5 * GIB)
        self.assertEqual(self.last_reload(), ("1", "ok"))
        daemon, self.daemon = self.daemon, None
        daemon.terminate()
        self.assertRegex(daemon.communicate()[1], r"^E1601 ration: .*limti.*\n      ")


class Waiting(Case):
    def waiting(self, *options):
        return subprocess.Popen([BIN / "ration", "run", NODE, "--wait", *options], env=self.environment, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_it_starts_when_there_is_room(self):
        holder = self.holding("holder", "10GiB", "--limit", "12GiB")
        waiter = self.waiting("--limit", "8GiB", "--name", "big", "--", BIN / "ration-workload", "hold", "7GiB")
        self.addCleanup(lambda: (waiter.terminate(), waiter.communicate()))
        self.assertIn("waiting for 8.00 GiB", waiter.stderr.readline())
        self.assertIn("root/holder" if os.getuid() == 0 else "/holder", waiter.stderr.readline())
        queue = self.get("/api/v1/snapshot")["queue"]
        self.assertEqual((queue[0]["position"], queue[0]["bytes"], queue[0]["name"]), (1, 8 * GIB, "big"))
        user = getpass.getuser()
        self.assertRegex(self.ration("ps").stdout, rf"(?m)^WAITS +WORKLOAD +USER +FOR +WAITED .*\n{queue[0]['lease']} +{user}/big +{user} +8\.00 GiB +\S+ ")
        self.assertRegex(self.ration("top", "--once").stdout, rf"waiting \S+: {queue[0]['lease']} {user}/big \({user}\) 8")
        for name in ("big", f"{user}/big"):
            self.assertIn(f"WAITING   {queue[0]['lease']}  {user}/big  8.00 GiB\nbecause ", self.ration("why", name).stdout)
        self.assertIn("E1413", self.ration("why", "nobody/big").stderr)
        holder.terminate()
        holder.communicate()
        self.assertIn("holding", waiter.stdout.readline())
        self.assertEqual(self.events("dequeued"), [])
        self.assertEqual(self.row("big")["guarantee_bytes"], 8 * GIB)
        self.assertEqual(self.get("/api/v1/leases"), [])

    def test_who_waits_keeps_its_place_when_the_daemon_is_killed(self):
        holder = self.holding("holder", "10GiB", "--limit", "12GiB")
        waiters = []
        for name, limit in (("first", "9GiB"), ("second", "8GiB"), ("third", "7GiB")):
            waiters.append(self.waiting("--limit", limit, "--name", name, "--", BIN / "ration-workload", "hold", "1GiB"))
            self.addCleanup(lambda process=waiters[-1]: (process.terminate(), process.communicate()))
            self.assertIn("waiting for", waiters[-1].stderr.readline())
        before = [lease["lease"] for lease in self.get("/api/v1/leases")]
        self.stop(signal.SIGKILL)
        self.start()
        self.assertEqual([lease["lease"] for lease in self.get("/api/v1/leases")], before)
        holder.terminate()
        holder.communicate()
        self.assertIn("holding", waiters[0].stdout.readline())
        self.until(lambda: {"first", "third"} <= set(self.rows()), "who fits beside it")
        self.assertNotIn("second", self.rows())

    def test_who_is_known_to_be_gone_in_time_passes_a_larger_one(self):
        long, brief = ["--name", "long", "--limit", "10GiB", "--", "sh", "-c", "read line; exit 0"], ["--name", "brief", "--limit", "4GiB", "--", "true"]
        for _ in range(5):
            for options in (long, brief):
                self.assertEqual(self.ration("run", NODE, *options, stdin=subprocess.DEVNULL).returncode, 0)
        self.until(lambda: len(self.events("ended")) == 10, "the ends of ten runs")
        self.stop()
        with sqlite3.connect(self.folder / "state/history.db") as database:  # as if the long ones had taken ten minutes
            self.assertEqual(database.execute("UPDATE runs SET ended = started + 600000 WHERE workload = 'long'").rowcount, 5)
        database.close()
        self.start()  # what it knows of them by now it has from its database

        def waiting(*options):
            process = self.waiting(*options)
            self.addCleanup(lambda: (process.terminate(), process.communicate()))
            return process

        runs = waiting(*long)
        self.until(lambda: "long" in self.rows(), "the long one")
        large = waiting("--name", "large", "--limit", "16GiB", "--", "true")
        self.assertIn("waiting for", large.stderr.readline())
        unknown = waiting("--name", "unknown", "--limit", "4GiB", "--", "true")
        self.assertIn("waiting for", unknown.stderr.readline())
        (head, first), (_, second) = ((row["lease"], row["reason"]) for row in self.get("/api/v1/leases"))
        self.assertNotIn("comes first", first)
        self.assertRegex(second, f"kept for {head}, which is ahead in the queue and may start in .*; how long this run takes is not known")
        self.assertEqual(self.ration("run", NODE, "--wait", *brief).returncode, 0)
        self.assertEqual([row["lease"] for row in self.get("/api/v1/leases")][0], head)
        self.assertTrue(any(event["text"].endswith(f", ahead of {head}: this run ends before {head} can start") for event in self.events("granted")))
        runs.communicate("ends\n")
        self.assertEqual([process.wait(PATIENCE) for process in (runs, large, unknown)], [0, 0, 0])
        self.assertEqual([event["workload"] for event in self.events("started")][10:], ["long", "brief", "large", "unknown"])

    def test_who_dies_waiting_leaves_the_queue(self):
        self.holding("holder", "10GiB", "--limit", "12GiB")
        waiter = self.waiting("--limit", "8GiB", "--", "true")
        waiter.stderr.readline()
        waiter.kill()
        waiter.communicate()
        self.until(lambda: self.get("/api/v1/leases") == [], "an empty queue")
        (left,) = self.events("dequeued")
        self.assertRegex(left["text"], r"^q-1 of \S+ \(true\) left the queue after .*, without a GPU: its command ended$")
        self.assertRegex(self.ration("why", left["id"]).stdout, r"(?m)^before .* queued: q-1 ")

    def test_who_gives_up_leaves_the_queue(self):
        self.holding("holder", "10GiB", "--limit", "12GiB")
        waiter = self.waiting("--limit", "8GiB", "--name", "big", "--", "true")
        waiter.stderr.readline()
        waiter.send_signal(signal.SIGINT)
        waiter.communicate()
        (left,) = self.until(lambda: self.events("dequeued"), "an event")
        self.assertRegex(left["text"], r" \(big\) left the queue after .*, without a GPU: (removed by|its command ended)")

    def test_who_waits_does_not_run_yet_and_is_stopped_by_its_name(self):
        self.holding("holder", "10GiB", "--limit", "12GiB")
        waiter = self.waiting("--limit", "8GiB", "--name", "big", "--", "true")
        waiter.stderr.readline()
        for words in (("explain", "big"), ("set", "big", "--limit", "1GiB")):
            self.assertIn("E1801 ration: 'big' does not run yet: it waits in the queue as q-1.\n      ration why q-1", self.ration(*words).stderr)
        self.assertEqual(self.ration("stop", "big", "--dry-run").stdout, "big (q-1): would be removed from the queue\n")
        self.assertEqual(json.loads(self.ration("stop", "big", "--dry-run", "-o", "json").stdout)["data"]["pids"], [])
        self.assertEqual(len(self.get("/api/v1/leases")), 1)
        self.assertEqual(self.ration("stop", "big", "--yes").stdout, "big (q-1): removed from the queue\n")
        self.assertIn("E1549", waiter.communicate()[1])
        self.assertEqual((self.get("/api/v1/leases"), len(self.events("dequeued"))), ([], 1))

    def test_who_waits_is_told_when_it_moves_up(self):
        self.holding("holder", "10GiB", "--limit", "12GiB")
        first = self.waiting("--limit", "9GiB", "--name", "first", "--", "true")
        first.stderr.readline()
        second = self.waiting("--limit", "8GiB", "--name", "second", "--", "true")
        self.addCleanup(lambda: (second.terminate(), second.communicate()))
        while "position 2 of 2" not in second.stderr.readline():
            pass
        self.assertEqual(self.ration("stop", "first", "--yes").returncode, 0)
        first.communicate()
        self.assertIn("ration: now position 1 of 1 - not enough room", second.stderr.readline())

    def test_a_time_to_wait_ends(self):
        self.holding("holder", "10GiB", "--limit", "12GiB")
        waiter = self.waiting("200ms", "--limit", "8GiB", "--", "true")
        self.assertIn("E1309", waiter.communicate()[1])
        self.assertEqual(waiter.returncode, 124)
        self.assertEqual(len(self.events("dequeued")), 1)

    def test_more_than_the_card_is_refused_at_once(self):
        done = self.ration("run", NODE, "--wait", "--limit", "64GiB", "--", "true")
        self.assertEqual((done.returncode, done.stderr.split()[0]), (2, "E1104"), done.stderr)


class Restarting(Case):
    def test_a_restart_takes_up_where_it_was(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.assertEqual(self.ration("set", "train", "--limit", "3GiB", NODE).returncode, 0)
        self.stop(signal.SIGKILL)
        with open(self.book("train"), "r+b") as book:  # nobody watches: the tenant helps itself
            book.seek(OFFSET["accounts[0].limit"])
            book.write(struct.pack("<Q", 12 * GIB))
        self.start()
        self.until(lambda: self.events("violation"), "the violation of the time between")
        self.assertEqual(self.row("train")["limit_bytes"], 3 * GIB)
        self.assertEqual(len(self.events("started")), 1, "it did not start twice")

    def test_a_time_without_a_daemon_is_told_as_a_gap(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.row("train")
        self.stop()
        path = next((self.folder / "state").glob("history.db"))
        with sqlite3.connect(path) as database:  # as if it had been away for an hour
            database.execute("UPDATE marks SET value = value - 3600000 WHERE name = 'recorded_to'")
        self.start()
        self.assertRegex(self.until(lambda: self.events("gap"), "the gap")[0]["text"], r"^the daemon was not running for about (59m|1h)")
        self.assertEqual(len(self.events("gap")), 1)

    def test_looks_further_apart_after_a_reload_are_no_gaps(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.row("train")
        path = self.folder / "ration.toml"
        path.write_text(path.read_text().replace('sample_idle = "100ms"', 'sample_idle = "1s"'))
        self.assertEqual(self.ask("POST", "/api/v1/reload", {})[0], 200)
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 3, "looks at the new rate")
        self.assertEqual(self.events("gap"), [])
        self.assertEqual(self.get("/api/v1/reports/usage?window=1h")["gaps"], [])

    def test_a_database_that_is_damaged_while_it_is_used_is_set_aside(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.row("train")
        self.stop()
        self.start()
        path = next((self.folder / "state").glob("history.db"))
        size = path.stat().st_size
        with open(path, "r+b") as file:
            file.seek(4096)
            file.write(os.urandom(size - 4096))

        def told():
            status, _ = self.ask("GET", "/api/v1/events?limit=1000")
            return status == 200 and [event for event in self.events("daemon") if "was damaged" in event["text"]]
        self.assertIn(".damaged-", self.until(told, "a new file")[0]["text"])
        self.assertEqual(self.ask("GET", "/api/v1/reports/usage?window=24h")[0], 200)

    def test_denials_are_told_once_over_restarts(self):
        self.ration("run", NODE, "--name", "greedy", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
        self.until(lambda: self.events("denied"), "the denial")
        keeper = self.holding("keeper", "512MiB", "--limit", "1GiB")
        for _ in range(3):
            self.stop(signal.SIGKILL)
            self.start()
            self.rows()
        denials = [event["denial"] for event in self.events("denied")]
        self.assertEqual(len(denials), len(set(denials)))
        self.assertIsNone(keeper.poll(), "the program was disturbed")

    def test_what_the_daemon_learns_late_is_listed_by_its_time(self):
        self.stop(signal.SIGKILL)
        script = f"{BIN}/ration-workload hold 2GiB; exec {BIN}/ration-workload hold 512MiB"
        greedy = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "greedy", "--limit", "1GiB", "--", "sh", "-c", script], env=self.environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (greedy.terminate(), greedy.communicate()))
        self.assertIn("holding", greedy.stdout.readline())
        self.start()
        self.until(lambda: self.events("denied"), "the denial")
        numbers = [event["id"] for event in json.loads(self.ration("events", "-o", "json").stdout)["data"]]
        self.assertEqual(numbers, sorted(numbers), "a program goes on after the last number")
        times = [line.split()[0] for line in self.ration("events").stdout.splitlines()]
        self.assertGreater(len(times), 2)
        self.assertEqual(times, sorted(times))

    def test_programs_run_and_are_held_while_nobody_watches(self):
        self.stop(signal.SIGKILL)
        done = self.ration("run", NODE, "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
        self.assertNotEqual(done.returncode, 0)
        self.start()

    def test_killed_at_any_moment_the_accounts_stay_right(self):
        rounds = int(os.environ.get("RATION_TEST_KILLS", "25"))
        keeper = self.holding("keeper", "1GiB", "--limit", "2GiB")
        draw = random.Random(7)
        for _ in range(rounds):
            # Not a wait for anything: the kill is to come at any moment of a start or of a look.
            time.sleep(draw.random() * 0.25)
            self.stop(signal.SIGKILL)
            self.start()
        self.assertIsNone(keeper.poll())
        self.assertEqual(self.row("keeper")["limit_bytes"], 2 * GIB)
        self.assertEqual(len(self.events("started")), 1)
        self.assertEqual(self.events("violation", "guard_lost"), [])


class Hostile(Case):
    def test_damaged_books_harm_nobody_else(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        draw = random.Random(3)
        whole = self.book("train").read_bytes()
        for number in range(60):
            content = bytearray(whole[:draw.choice([0, 7, 100, 4096, 8192, len(whole)])])
            for _ in range(draw.randrange(50)):
                if content:
                    content[draw.randrange(min(len(content), 12288))] = draw.randrange(256)
            (self.folder / "books" / f"bad{number}.{900 + number}.book").write_bytes(content)
        self.rows()
        self.assertEqual(self.row("train")["limit_bytes"], 2 * GIB)
        self.assertIsNone(self.daemon.poll())

    @unittest.skipUnless(os.getuid() == 0, "needs to become another user")
    def test_other_users_see_totals_and_change_nothing(self):
        os.chmod(self.folder, 0o755)
        self.holding("train", "1GiB", "--limit", "2GiB", "--label", "secret=42")

        status, answer = self.as_nobody("GET", "/api/v1/snapshot")
        row = answer["data"]["workloads"][0]
        self.assertEqual((status, row["used_bytes"], row["command"], row["labels"], row["processes"]), (200, GIB + 64 * MIB, None, None, None))
        for method, path, body in (("PATCH", "/api/v1/workloads/train", '{"limit":"8GiB"}'), ("POST", "/api/v1/reload", "{}"),
                                   ("POST", "/api/v1/workloads", json.dumps({"folder": str(self.folder)}))):
            self.assertEqual(self.as_nobody(method, path, body)[0], 403, path)
        self.assertEqual(self.as_nobody("GET", "/api/v1/workloads/train/explain")[0], 403)
        self.assertEqual(self.row("train")["limit_bytes"], 2 * GIB)

    def test_the_port_is_no_way_in(self):
        self.holding("train", "1GiB", "--limit", "2GiB")

        def ask(method, path, body=None, **headers):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

        change = ("PATCH", "/api/v1/workloads/train", '{"limit":"8GiB"}')
        self.assertEqual(ask(*change, **{"Content-Type": "application/json"})[0], 403)
        self.assertEqual(ask("GET", "/api/v1/snapshot", Host="evil.example")[0], 421)
        token = (self.folder / "state" / "token").read_text().strip()
        self.assertEqual((self.folder / "state" / "token").stat().st_mode & 0o777, 0o600)
        authorised = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
        self.assertEqual(ask(*change, **authorised, Origin="http://evil.example")[0], 403)
        self.assertEqual(ask(*change, **{**authorised, "Content-Type": "text/plain"})[0], 415)
        self.assertEqual(ask(*change, **{**authorised, "Authorization": "Bearer x" + token})[0], 401)
        self.assertEqual(self.row("train")["limit_bytes"], 2 * GIB)
        self.assertEqual(ask(*change, **authorised)[0], 200)
        self.assertEqual(self.row("train")["limit_bytes"], 8 * GIB)

    def test_bad_requests_are_refused_with_a_reason(self):
        for method, path, body, status in (("GET", "/api/v1/nothing", None, 404), ("DELETE", "/api/v1/snapshot", None, 405),
                                           ("PATCH", "/api/v1/workloads/x", [], 400), ("PATCH", "/api/v1/workloads/x", {"limit": 5}, 400),
                                           ("PATCH", "/api/v1/workloads/x", {"limit": "4GiB"}, 404), ("GET", "/api/v1/events?limit=-1", None, 400),
                                           ("GET", "/api/v1/events/abc", None, 400), ("GET", "/api/v1/events/999999", None, 404),
                                           ("GET", "/api/v1/series?from=yesterday", None, 400), ("GET", "/api/v1/series?gpu=9", None, 404),
                                           ("GET", "/api/v1/leases/q-9", None, 404), ("POST", "/api/v1/leases", {"bytes": -1}, 400),
                                           ("POST", "/api/v1/leases", {"bytes": 0}, 400), ("POST", "/api/v1/workloads", {"folder": "/etc"}, None),
                                           ("GET", "/api/v1/devices/9/explain", None, 404)):
            with self.subTest(path=path, body=body):
                got, problem = self.ask(method, path, body)
                if status is not None:
                    self.assertEqual(got, status, problem)
                    self.assertTrue(problem["id"] and problem["detail"] and problem["fix"], problem)


class Starting(Case):
    def refused(self, error, *options):
        done = subprocess.run([BIN / "rationd", NODE, *options], env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertIn(error + " ration: ", done.stderr)
        self.assertEqual(done.stdout, "")
        return done

    def test_beside_another_daemon_the_command_that_is_advised_works(self):
        advised = re.search(r"RATION_RUNTIME_DIR=FOLDER (ration serve .*)", self.refused("E1504", "--state", self.folder / "x", "--listen", "").stderr).group(0)
        own = self.folder / "own"
        words = advised.replace("FOLDER", str(own)).replace("ration serve", f"exec {BIN}/ration serve --listen ''")
        daemon = subprocess.Popen(["sh", "-c", words], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (daemon.terminate(), daemon.communicate()))
        self.assertIn(f"socket {own}/ration.sock", daemon.stdout.readline())

    def test_only_one_daemon_has_the_place(self):
        self.assertIn(str(self.daemon.pid), self.refused("E1504", "--state", self.folder / "other", "--listen", "").stderr)
        other = ("--state", self.folder / "state", "--socket", self.folder / "other.sock", "--listen", "")
        self.refused("E1504", *other)
        self.environment["RATION_RUNTIME_DIR"] = str(self.folder / "other-books")
        self.refused("E1913", *other)

    def test_an_open_address_needs_a_token(self):
        self.refused("E1505", "--state", self.folder / "other", "--socket", self.folder / "other.sock", "--listen", "0.0.0.0:0")

    def test_an_address_that_others_reach_is_not_said_to_be_this_machines_only(self):
        self.stop()
        (self.folder / "token").write_text("of-this-test-and-of-nobody-else")
        (self.folder / "token").chmod(0o600)
        (self.folder / "ration.toml").write_text(f'[daemon]\ntoken_file = "{self.folder}/token"\n')
        for address, alone in (("0.0.0.0:0", False), ("127.0.0.1:0", True)):
            daemon = subprocess.Popen([self.program, *self.node.split(), "--state", self.folder / "state", "--listen", address], env=self.environment, stdout=subprocess.PIPE, text=True)
            told = daemon.stdout.readline()
            daemon.terminate()
            daemon.communicate()
            self.assertEqual(("http://" in told, "this machine only" in told), (True, alone), told)

    def start_under_systemd(self):
        """Its standard output is the journal's socket. Returns what it wrote there."""
        self.stop()
        ours, journal = socket.socketpair()
        self.addCleanup(ours.close)
        with journal:  # as systemd gives it
            self.daemon = subprocess.Popen([BIN / "rationd", NODE, "--state", self.folder / "state", "--listen", "127.0.0.1:0"], env=self.environment, stdout=journal, stderr=subprocess.PIPE)
        said = b""
        while b"the token from" not in said:
            piece = ours.recv(4096)
            self.assertTrue(piece, said)
            said += piece
        return said

    def test_the_journal_gets_no_link_to_the_dashboard(self):
        self.assertNotIn(b"?token=", self.start_under_systemd())

    def test_a_daemon_without_a_terminal_gives_links_to_operators(self):
        self.start_under_systemd()
        first, second = (self.ration("dashboard").stdout.strip() for _ in range(2))
        for link in (second, first):
            token = re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=([0-9a-f]{64})", link).group(1)
            status, answer = self.ask("POST", "/api/v1/session", {"token": token})
            self.assertEqual((status, answer["data"]["token"]), (200, (self.folder / "state/token").read_text().strip()))
            status, answer = self.ask("POST", "/api/v1/session", {"token": token})
            self.assertEqual((status, " ".join(answer["fix"].split()[:2])), (401, "ration dashboard"))
        self.folder.chmod(0o755)
        status, answer = self.as_nobody("POST", "/api/v1/session/link", "{}")
        self.assertEqual((status, answer["id"]), (403, "E1502"))
        self.assertIn(link.split("/?")[0], answer["fix"], "what everybody may open")

    def test_without_a_port_there_is_no_link(self):
        self.stop()
        self.daemon = subprocess.Popen([BIN / "rationd", NODE, "--state", self.folder / "state", "--listen", ""], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.daemon.stdout.readline()
        done = self.ration("dashboard")
        self.assertEqual((done.returncode, done.stderr.split()[0], done.stdout), (3, "E1533", ""), done.stderr)

    def test_a_shells_limit_of_descriptors_is_not_the_nodes(self):
        self.stop()
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        self.start()
        self.assertEqual(resource.prlimit(self.daemon.pid, resource.RLIMIT_NOFILE)[0], min(before[1], 65536) if before[1] > 0 else 65536)

    def test_it_says_so_when_it_is_not_there(self):
        self.stop()
        for verb in (["events"], ["recommend", "x"], ["run", NODE, "--wait", "--limit", "1GiB", "--", "true"]):
            done = self.ration(*verb)
            self.assertEqual((done.returncode, done.stderr.split()[0]), (3, "E1501"), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
