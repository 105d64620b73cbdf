#!/usr/bin/env python3
"""What the verbs say about real workloads beside a daemon: doctor, trim, explain, events, ps."""
import csv
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
import urllib.parse

import jsonschema

from node_case import BIN, NOBODY, NODE, SOURCE, Case
from book_layout import OFFSET
from node_client import GIB, MIB, UnixConnection, of_any_node

CONTEXT = 64 * MIB


class Faces(Case):
    def document(self, verb, *arguments):
        done = self.ration(verb, *arguments, "-o", "json")
        document = json.loads(done.stdout)
        self.assertNotIn("error", document, done.stderr)
        jsonschema.validate(document, json.loads((SOURCE / "share/ration/schema" / f"{document['schema'][7:-2]}.json").read_text()))
        return document

    def checks(self, *options):
        return {row["check"]: row for row in self.document("doctor", self.node, *options)["data"]}

    def outsider(self, size):
        environment = dict(self.environment, RATION_SIM=self.node.removeprefix("--sim="), LD_LIBRARY_PATH=str(BIN.parent / "sim"))
        process = subprocess.Popen([BIN / "ration-workload", "hold", size], env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        process.stdout.readline()
        self.until(lambda: any(row["workload"] is None and row["processes"][0]["pid"] == process.pid for row in self.get("/api/v1/workloads")),
                   "the daemon sees it")
        return process


class OnePath(Faces):
    """A verb says and does the same with and without a daemon."""

    def said(self, *words):
        done = self.ration(*words, self.node)
        # In what is to be typed, the daemon names itself, and has a queue to wait in.
        return done.returncode, *(re.sub(r" --socket=\S+|, or: ration run .*", "", text) for text in (done.stdout, done.stderr))

    @staticmethod
    def shape(document):
        if isinstance(document, dict):
            return {key: OnePath.shape(value) for key, value in document.items() if key not in ("id", "id_na", "id_na_message")}  # of the daemon's event
        return [OnePath.shape(document[0])] if isinstance(document, list) and document else type(document).__name__

    def test_a_verb_says_the_same_without_a_daemon(self):
        self.holding("serve", "1GiB", "--limit", "4GiB", "--guarantee", "2GiB")
        self.ration("run", self.node, "--name", "eager", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
        number = re.search(r"d-\d+-\d+", self.ration("why", "eager", self.node, "-o", "json").stdout).group()
        self.until(lambda: self.events("ended"), "eager ended")
        texts = (("ps",), ("explain", "serve"), ("explain", "--gpu", "0"), ("explain", "nobody"), ("fits", "1GiB"), ("fits", "15GiB"), ("fits", "20GiB"), ("why", number),
                 ("why", "eager"), ("set", "serve", "--limit", "3GiB", "--dry-run"), ("set", "serve", "--limit", "512MiB"),
                 ("set", "serve", "--guarantee", "5GiB"), ("set", "serve", "--limit", "1GiB", "--gpu", "7"), ("set", "nobody", "--limit", "1GiB"),
                 ("split", "0", "--sizes", "15GiB"), ("split", "0", "--into", "4", "--dry-run"),
                 ("ps", "--filter", "used>1GiB & full=no"), ("ps", "--filter", "used>50%"), ("ps", "--filter", "usd>1GiB"))
        documents = (("explain", "serve"), ("explain", "--gpu", "0"), ("fits", "1GiB"), ("why", number), ("set", "serve", "--limit", "3GiB", "--dry-run"))

        def everything():
            return ({words: self.said(*words) for words in texts},
                    {words: self.shape(self.document(*words, self.node)["data"]) for words in documents})

        with_daemon, shapes = everything()
        self.stop(signal.SIGKILL)
        without, shapes_without = everything()
        self.maxDiff = None
        self.assertEqual(with_daemon, without)
        self.assertEqual(shapes, shapes_without)


class Filtered(Faces):
    """One filter language, evaluated by the daemon."""
    configuration = "metrics_processes = true\n"

    def metrics(self, query):
        connection = UnixConnection(self.folder / "ration.sock")
        self.addCleanup(connection.close)
        connection.request("GET", f"/metrics?{query}")
        return connection.getresponse().read().decode()

    def test_ps_the_snapshot_the_workloads_and_the_metrics_show_the_same(self):
        self.holding("big", "3GiB", "--limit", "4GiB")
        self.holding("small", "1GiB", "--limit", "2GiB")
        self.outsider("1GiB")
        self.until(lambda: len(self.get("/api/v1/workloads")) == 3, "all are there")
        everything = self.get("/api/v1/snapshot")
        for text, names in (("used>2GiB", ["big"]), ("governed=no", [None]), ("name=big | used<2GiB governed=yes", ["big", "small"]), ("!governed=yes", [None]),
                            ("small", ["small"]), ("used>90%", []), ("denied=n/a", [None]), ("used>0", ["big", "small", None])):
            with self.subTest(text=text):
                query = "filter=" + urllib.parse.quote(text)
                snapshot = self.get(f"/api/v1/snapshot?{query}")
                self.assertEqual([row["workload"] for row in snapshot["workloads"]], names)
                self.assertEqual([(device["gpu"], device["total_bytes"]) for device in snapshot["devices"]],
                                 [(device["gpu"], device["total_bytes"]) for device in everything["devices"]])
                self.assertEqual([row["workload"] for row in self.get(f"/api/v1/workloads?{query}&processes=1")], names)
                listed = self.document("ps", "--filter", text, self.node)["data"]
                self.assertEqual([row["workload"] for row in listed], names)
                metrics = self.metrics(query)
                self.assertEqual(sorted(set(re.findall(r'ration_process_memory_bytes\{[^}]*workload="(\w+)"', metrics))), [name for name in names if name])
        for path in ("/api/v1/snapshot", "/api/v1/workloads", "/metrics"):
            status, answer = self.ask("GET", f"{path}?filter=usd%3E4GiB")
            self.assertEqual((status, answer["id"], "Did you mean 'used'?" in answer["detail"]), (400, "E1429", True), answer)


class Tenants(Faces):
    """`ration ps --by tenant`."""
    node = "--sim=T4:16GiB:context=64MiB*2"
    configuration = ('[[tenant]]\nname = "research"\nlimit = "6GiB"\n[[tenant]]\nname = "product"\nguarantee = "2GiB"\n'
                     '[[tenant]]\nname = "idle"\nlimit = "1GiB"\n')

    def by_tenant(self, *options):
        done = self.ration("ps", self.node, "--by", "tenant", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def figures(self, *options):
        """The rows of the csv without the sizes that depend on the context."""
        return [(row["tenant"], row["gpu"], row["workloads"], int(row["used_bytes"]) // GIB, row["limit_bytes"], row["guarantee_bytes"], row["denials"])
                for row in csv.DictReader(self.by_tenant("-o", "csv", *options).splitlines())]

    def test_a_row_is_the_sum_of_a_tenants_workloads_and_the_tenants_own_limit(self):
        self.holding("train", "3GiB", "--limit", "4GiB", "--tenant", "research")
        self.holding("eval", "1GiB", "--limit", "2GiB", "--tenant", "research", "--gpu", "0")
        self.holding("serve", "2GiB", "--limit", "4GiB", "--tenant", "product", "--gpu", "1")
        self.holding("alone", "1GiB", "--limit", "3GiB", "--gpu", "1")
        self.outsider("1GiB")
        self.until(lambda: len([row for row in self.get("/api/v1/workloads") if row["used_bytes"]]) == 5, "all are there")
        root, idle = ("root", "1", "1", 1, "-", "-", "0"), ("idle", "-", "0", 0, str(GIB), "-", "0")
        product = ("product", "1", "1", 2, "-", str(2 * GIB), "0")
        research = ("research", "0", "2", 4, str(6 * GIB), "-", "0")
        elsewhere = ("research", "1", "1", 0, str(6 * GIB), "-", "0")  # train may use both GPUs
        ungoverned = ("(ungoverned)", "0", "-", 1, "-", "-", "-")
        self.assertEqual(self.figures(), [idle, product, research, elsewhere, root, ungoverned])
        self.assertEqual(self.figures("--sort=-used")[:2], [research, product])
        self.assertEqual(self.figures("--gpu", "1"), [idle[:1] + ("1",) + idle[2:], product, elsewhere, root])
        self.assertEqual(self.figures("--tenant", "idle"), [idle])
        self.assertEqual(self.figures("--filter", "used＞2GiB"), [product, ("research", "0", "1", 3, str(6 * GIB), "-", "0")])
        self.assertRegex(self.by_tenant(), r"(?m)^TENANT +GPU +WORKLOADS +USED +LIMIT +GUARANTEE +PEAK +DENIED\n(.*\n)*research +0 +2 +4\.\d+ GiB +6\.00 GiB ")
        self.assertIn("no row matches the filter", self.by_tenant("--filter", "used>15GiB"))
        for form in ("json", "jsonl"):
            done = self.ration("ps", self.node, "--by", "tenant", "-o", form)
            self.assertEqual((done.returncode, "-o csv" in done.stderr), (2, True), done.stderr)

    def test_without_a_daemon_the_books_are_summed_up(self):
        self.holding("train", "3GiB", "--limit", "4GiB", "--tenant", "research", "--gpu", "0")
        self.stop()
        self.assertEqual(self.figures(), [("research", "0", "1", 3, "-", "-", "0")])
        self.assertEqual(self.ration("ps", "--by", "tenant", "-o", "csv", env={"RATION_SIM": ""}).stdout.splitlines()[1:], [])


class Doctor(Faces):
    configuration = '[[tenant]]\nname = "big"\nguarantee = "12GiB"\nlimit = "12GiB"\n'

    def test_a_limit_that_the_daemon_lowered_holds_still(self):
        self.holding("serve", "1GiB", "--tenant", "big", "--limit", "12GiB", "--guarantee", "12GiB")
        check = self.checks("--only", "enforce.preload")["enforce.preload"]
        self.assertEqual(check["result"], "OK", check)
        self.assertRegex(check["message"], r"\d GiB")
        self.assertNotRegex(check["message"], r"\d{6}", "sizes are for people")

    def test_a_device_that_is_promised_to_the_last_byte_has_a_guard_as_well(self):
        self.assertEqual(self.ration("split", "0", "--sizes", "4GiB", self.node).returncode, 0)
        self.holding("serve", "1GiB", "--tenant", "big", "--limit", "12GiB", "--guarantee", "12GiB")
        self.until(lambda: self.get("/api/v1/devices")[0]["available_bytes"] == 0, "nothing is left")
        check = self.checks("--only", "enforce.preload")["enforce.preload"]
        self.assertEqual(check["result"], "OK", check)

    def test_the_configuration_in_use_is_named(self):
        message = self.checks("--only", "config.file")["config.file"]["message"]
        self.assertIn(str(self.folder / "ration.toml"), message)
        self.assertIn(": 5 values are set", message)

    def test_the_daemon_and_what_holds_limits_are_told(self):
        checks = self.checks("--only", "daemon,enforce.by")
        self.assertRegex(checks["daemon.reach"]["message"], rf"{self.folder}/ration.sock: version \d+\.\d+\.\d+, pid {self.daemon.pid}, last tick \d+\.\d s ago$")
        self.assertIn("n/a (nothing runs", checks["enforce.by"]["message"])
        self.holding("serve", "1GiB", "--limit", "2GiB")
        self.row("serve")
        self.assertIn("1 by shim", self.checks("--only", "enforce.by")["enforce.by"]["message"])
        self.stop()
        self.assertRegex(self.checks("--only", "daemon")["daemon.reach"]["message"], r"^n/a \(no daemon")

    def test_a_daemon_that_was_killed_is_missed(self):
        self.stop(signal.SIGKILL)
        check = self.checks("--only", "daemon")["daemon.reach"]
        self.assertEqual((check["result"], check["message"]), ("WARN", f"nobody listens on {self.folder}/ration.sock, so the daemon that made it was killed"))
        self.assertEqual(of_any_node(check["fix"]), "ration serve")

    def test_the_folder_of_the_daemons_state_is_the_one_that_it_was_given(self):
        self.assertEqual(self.checks("--only", "folders.state")["folders.state"]["path"], f"{self.folder}/state")

    def test_who_is_not_governed_is_named_with_a_way_on(self):
        process = self.outsider("1GiB")
        check = self.checks("--only", "mem.ungoverned")["mem.ungoverned"]
        self.assertEqual(check["result"], "WARN")
        self.assertRegex(check["message"], rf"pid {process.pid} .* \(root.*\) 1\.06 GiB")
        self.assertIn(f"ration explain {process.pid}", of_any_node(check["fix"]))


class DoctorOfAnEmptyNode(Faces):
    def test_a_limit_that_holds_alone_is_seen_exactly(self):
        check = self.checks("--only", "enforce.preload")["enforce.preload"]
        self.assertEqual((check["result"], check["message"]), ("OK", "a program under a limit of 10.2 GiB sees this limit as the device's total"))


class Trim(Faces):
    def test_a_rehearsal_shows_what_is_held_and_what_cannot_come_back(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.until(lambda: self.row("train")["idle_seconds"] >= 1 and self.row("train")["used_bytes"] > GIB, "it rests")
        row = self.document("trim", "train", "--dry-run")["data"][0]
        self.assertEqual(row["used_bytes"], GIB + CONTEXT)
        self.assertGreaterEqual(row["idle_seconds"], 1)
        text = self.ration("trim", "train", "--dry-run").stdout
        self.assertIn("it holds 1.06 GiB", text)
        self.assertIn("the workload holds none in pools of the driver or in ration's library", text)
        self.assertIn("1.00 GiB allocated by the program, 0 B in pools of the driver, 64.0 MiB in contexts", text)
        self.assertEqual(self.ration("trim", "nobody", "--dry-run").returncode, 3)

    def test_a_program_with_rations_library_can_give_back_what_is_free_in_it(self):
        program = ("import ctypes, ration\n"
                   "library = ration._native.library\n"
                   "library.ration_torch_alloc.restype = ctypes.c_void_p\n"
                   "library.ration_torch_alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]\n"
                   "kept = library.ration_torch_alloc(512 << 20, 0, None)\n"
                   "print('here', flush=True)\n"
                   "input()\n")
        holder = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "pool", "--limit", "4GiB", "--", "python3", "-c", program],
                                  env=dict(self.environment, PYTHONPATH=str(SOURCE / "libration/python")), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(lambda: (holder.kill(), holder.communicate()))
        self.assertEqual(holder.stdout.readline(), "here\n")
        self.assertTrue(self.row("pool"))
        self.assertIn("could return  memory that the program does not use and that ration's library keeps", self.ration("trim", "pool", "--dry-run").stdout)

    def test_who_was_not_idle_for_so_long_is_not_asked(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.row("train")
        done = self.ration("trim", "train", "--idle", "1h")
        self.assertEqual((done.returncode, done.stdout), (0, "train was not idle for 1h; nothing was done.\n"))
        self.assertEqual(self.events("trimmed"), [])
        self.assertIn("gave back nothing", self.ration("trim", "train", "--idle", "0s").stdout)

    @unittest.skipUnless(os.getuid() == 0, "needs to become another user")
    def test_who_is_no_operator_asks_only_their_own(self):
        self.folder.chmod(0o755)
        (self.folder / "ration.sock").chmod(0o666)
        theirs = self.folder / "theirs"
        theirs.mkdir()
        os.chown(theirs, NOBODY, NOBODY)
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.row("train")

        def stranger(*words):
            return subprocess.run([BIN / "ration", "trim", *words, "--socket", self.folder / "ration.sock"], user=NOBODY, group=NOBODY, extra_groups=[],
                                  capture_output=True, text=True, env=dict(self.environment, RATION_RUNTIME_DIR=str(theirs), HOME=str(theirs)))

        for more in ((), ("--dry-run",)):
            done = stranger("--idle", "0s", *more)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.assertRegex(done.stdout, r"^not asked, because these workloads belong to other users: \w+/train\n$")
            warnings = json.loads(stranger("--idle", "0s", "-o", "json", *more).stdout)["warnings"]
            self.assertEqual([warning["id"] for warning in warnings], ["E1502"])
        self.assertEqual(stranger("train").returncode, 5)
        self.assertEqual(self.events("trimmed"), [])

    def test_what_is_printed_as_a_name_is_a_name_everywhere(self):
        self.holding("train", "1GiB", "--limit", "2GiB", "--tenant", "nlp")
        self.row("train")
        name = self.document("trim", "--idle", "0s", "--dry-run")["data"][0]["workload"]
        for name in (name, "nlp/train", "train"):
            self.assertEqual(self.document("explain", name, NODE)["data"][0]["workload"], "train", name)
            self.assertEqual(len(self.document("trim", name, "--dry-run")["data"]), 1, name)
            self.assertNotEqual(self.document("events", "--workload", name)["data"], [], name)
        self.assertEqual(self.document("events", "--workload", "vision/train")["data"], [])


class Explain(Faces):
    node = "--sim=T4:16GiB:context=64MiB*2"

    def test_who_is_not_governed_and_where_it_came_from(self):
        process = self.outsider("1GiB")
        document = self.document("explain", process.pid, self.node)
        self.assertEqual((document["source"], document["warnings"][0]["id"]), ("daemon", "E1807"))
        data = document["data"]
        self.assertEqual((data["pid"], data["governed"], data["user"], data["policy"]), (process.pid, False, "root", "report"))
        self.assertEqual(data["devices"], [{"gpu": 0, "device": "Tesla T4", "used_bytes": GIB + CONTEXT}])
        row = next(row for row in self.get("/api/v1/workloads") if row["workload"] is None)
        self.assertEqual([(data[field], data.get(field + "_na")) for field in ("container", "origin")],
                         [(row[field], row.get(field + "_na")) for field in ("container", "origin")])
        text = of_any_node(self.ration("explain", process.pid, self.node).stdout)
        for part in (r"user +root", r"container +\S", r"came from +\S", r"holds +1\.06 GiB on GPU 0 Tesla T4", r"policy +report: ",
                     r"→ ration run --limit 1.25GiB -- \S+ration-workload hold 1GiB"):
            self.assertRegex(text, part)
        self.assertRegex(of_any_node(self.ration("ps", self.node).stdout), rf"\n\?/ration-workload .*not started through ration: root.* - ration explain {process.pid}")
        self.assertRegex(self.ration("explain", "--gpu", "0").stdout, rf"pid {process.pid} .* driver: root", "the daemon knows which node")

    def test_who_waits_is_told_who_holds_what_it_waits_for(self):
        for name, gpu in (("first", "0"), ("second", "1")):
            process = subprocess.Popen([BIN / "ration", "run", self.node, "--name", name, "--limit", "10GiB", "--gpu", gpu, "--", BIN / "ration-workload", "hold", "8GiB"],
                                       env=self.environment, stdout=subprocess.PIPE, text=True)
            self.addCleanup(lambda process=process: (process.terminate(), process.communicate()))
            process.stdout.readline()
            self.row(name)
        done = self.ration("run", "--wait=200ms", self.node, "--limit", "12GiB", "--gpu", "1", "--", "true")
        self.assertEqual(done.returncode, 124, done.stderr)
        self.assertRegex(done.stderr, r"not enough room; GPU 1 has the most: 7\.94 GiB of 16\.0 GiB are neither held nor promised\n +taken by  \S*/second 8\.06 GiB\n")
        process = subprocess.Popen([BIN / "ration", "run", self.node, "--name", "promised", "--limit", "7GiB", "--guarantee", "7GiB", "--gpu", "1", "--", BIN / "ration-workload", "hold", "1GiB"],
                                   env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        process.stdout.readline()
        done = self.ration("run", "--wait=200ms", self.node, "--limit", "12GiB", "--gpu", "1", "--", "true")
        self.assertRegex(done.stderr, r"taken by  \S*/second 8\.06 GiB · \S*/promised 7\.00 GiB \(promised; 1\.06 GiB used\)\n")

    def test_without_a_daemon_its_policy_is_not_known(self):
        process = self.outsider("1GiB")
        self.stop()
        data = self.document("explain", process.pid, self.node)["data"]
        self.assertEqual((data["user"], data["policy"], data["policy_na"]), ("root", None, "no daemon runs: ration serve"))

    def test_each_of_two_equal_cards_has_its_number(self):
        both = subprocess.Popen([BIN / "ration", "run", self.node, "--name", "both", "--limit", "2GiB", "--gpu", "0,1", "--", BIN / "ration-workload", "hold", "1GiB"],
                                env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (both.terminate(), both.communicate()))
        both.stdout.readline()
        text = self.ration("explain", "both", self.node).stdout
        self.assertEqual(re.findall(r"on (GPU \d Tesla T4) - the parts", text), ["GPU 0 Tesla T4", "GPU 1 Tesla T4"])
        self.assertEqual([row["gpu"] for row in self.document("explain", "both", self.node)["data"]], [0, 1])
        self.assertEqual(self.ration("set", "both", self.node, "--limit", "512MiB", "--yes").returncode, 0)
        self.assertIn("ration set both --limit 1088MiB --gpu 0\n", of_any_node(self.ration("explain", "both", self.node).stdout))

    def test_a_workload_over_its_limit_learns_what_stands_in_the_way(self):
        holder = subprocess.Popen([BIN / "ration", "run", self.node, "--name", "big", "--limit", "4GiB", "--gpu", "0", "--", BIN / "ration-workload", "hold", "2GiB"],
                                  env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (holder.terminate(), holder.communicate()))
        holder.stdout.readline()
        self.assertEqual(self.ration("set", "big", self.node, "--limit", "1GiB", "--yes").returncode, 0)
        self.until(lambda: self.row("big")["shrinking"], "it is over")
        expected = {"over_bytes": GIB + CONTEXT, "pooled_bytes": 0, "context_bytes": CONTEXT, "live_bytes": 2 * GIB, "movable_bytes": 0}
        rows = [self.document("explain", "big", self.node)["data"][0], self.get("/api/v1/workloads/big/explain")[0]]
        for shrinking in (row["shrinking"] for row in rows):
            self.assertEqual({key: shrinking[key] for key in expected}, expected)
            self.assertIn("over its limit of 1.00 GiB by 1.06 GiB: requests are denied until its use is below the limit", shrinking["text"])
            self.assertIn("ration set big --limit 2112MiB", of_any_node(shrinking["fix"]))
        text = self.ration("explain", "big", self.node).stdout
        self.assertIn("over its limit of 1.00 GiB by 1.06 GiB", text)
        self.assertIn("in use: 2.00 GiB allocated and 64.0 MiB in contexts, until the program frees them or ends", text)
        self.assertIn("ration trim big", of_any_node(text))
        self.assertEqual(self.ration("set", "big", self.node, "--limit", "2112MiB").returncode, 0, "as it said")
        self.assertNotIn("shrinking", self.document("explain", "big", self.node)["data"][0])

    def test_what_is_not_known_has_a_row_of_its_own(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        account = self.document("explain", "train", self.node)["data"][0]
        self.assertEqual(account, self.get("/api/v1/workloads/train/explain")[0], "one document on every way")
        for each in ({row["id"]: row for row in rows} for rows in (account["rows"], account["processes"][0]["rows"])):
            self.assertEqual(list(each), ["allocated", "pooled", "managed", "framework_free", "context", "unrequested", "unexplained"])
            self.assertEqual((each["unrequested"]["bytes"], each["framework_free"]["bytes"]), (0, None))


class Events(Faces):
    def test_a_type_that_there_is_not_is_refused_with_the_nearest(self):
        done = self.ration("events", "--type", "densied")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("Did you mean 'denied'?", done.stderr)
        schema = json.loads((SOURCE / "share/ration/schema/event.json").read_text())
        types = next(iter(re.findall(r'"enum": (\["started".*?\])', json.dumps(schema))))
        done = self.ration("events", "--type", ",".join(json.loads(types)))
        self.assertEqual(done.returncode, 0, done.stderr)


class Demo(Faces):
    def test_times_are_told_to_a_tenth_of_a_second(self):
        said = self.ration("demo", "--speed", "6", "--for", "100ms").stdout
        self.assertIn("in 3.3 s: ", said)
        self.assertNotRegex(said, r"in \d+\.\d\d+ s: ")


class InAContainer(Faces):
    """NVML before release 570 lists the container's processes with 0 bytes, and who computes by other numbers."""
    configuration = '[[policy]]\nmatch = { users = ["*"] }\nidle = { after = "1s", action = "suspend" }\n'
    untold = "the driver does not report it in a container"

    def setUp(self):
        node = tempfile.NamedTemporaryFile("w", suffix=".toml")
        self.addCleanup(node.close)
        node.write('driver = "560-container"\n[[device]]\nmodel = "T4"\nmemory = "16GiB"\ncontext = "64MiB"\nutilisation = 40\n')
        node.flush()
        self.node = "--sim=" + node.name
        super().setUp()

    def test_what_a_process_holds_is_not_known_and_never_0(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        row = self.row("train")
        self.assertEqual((row["used_bytes"], row["context_bytes"]), (GIB + CONTEXT, CONTEXT), "a context costs what the device has less")
        process = row["processes"][0]
        self.assertEqual((process["driver_used_bytes"], process["driver_used_bytes_na"]), (None, self.untold))
        data = self.document("explain", "train", self.node)["data"][0]
        self.assertEqual((data["driver_bytes"], data["driver_bytes_na"]), (None, self.untold))
        self.assertRegex(self.ration("explain", "train", self.node).stdout, rf"n/a +\({self.untold}\)")
        outsider = self.outsider("1GiB")
        row = next(row for row in self.get("/api/v1/workloads") if row["workload"] is None)
        self.assertEqual((row["used_bytes"], row["used_bytes_na"]), (None, self.untold))
        device = self.get("/api/v1/devices")[0]
        self.assertEqual([(device[field], device.get(field + "_na")) for field in ("ungoverned_bytes", "unexplained_bytes")], [(None, self.untold)] * 2)
        self.assertIsNone(device["orphaned_bytes"])
        self.assertEqual(device["governed_bytes"], GIB + CONTEXT)
        self.assertIn(f"n/a ({self.untold})", self.ration("ps", self.node).stdout)
        self.assertRegex(self.ration("explain", outsider.pid, self.node).stdout, rf"n/a +\({self.untold}\)")

    def test_who_may_be_computing_is_not_taken_for_idle(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        event = self.until(lambda: self.events("idle"), "it takes nothing")[0]
        self.assertIn("ration does not know whether the workload computes, so the workload is not suspended", event["text"])

    def test_a_process_measures_its_context_where_nobody_did(self):
        waits = subprocess.Popen([BIN / "ration", "run", self.node, "--name", "train", "--limit", "2GiB", "--", "sh", "-c", "read go; exec ration-workload hold 1GiB"],
                                 env=dict(self.environment, PATH=f"{BIN}:{os.environ['PATH']}"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (waits.terminate(), waits.communicate()))
        path = self.until(lambda: next((self.folder / "books").glob("train.*.book"), None), "its book")
        with open(path, "r+b") as book:
            book.seek(OFFSET["accounts[0].context_estimate"])
            book.write(bytes(8))
        waits.stdin.write("\n")
        waits.stdin.flush()
        self.assertIn("holding", waits.stdout.readline())
        row = self.until(lambda: (lambda row: row if row["used_bytes"] > GIB else None)(self.row("train")), "it holds something")
        self.assertEqual(row["context_bytes"], CONTEXT)


if __name__ == "__main__":
    unittest.main()
