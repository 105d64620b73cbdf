#!/usr/bin/env python3
"""Idle workloads are moved away, come back when they work again, and give back what they do not use; over kills of everybody."""
import json
import os
import random
import signal
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node.node_case import NODE, Case  # noqa: E402
from node_client import BIN, GIB, MIB, PATIENCE, SOURCE  # noqa: E402

CONTEXT = 64 * MIB


class Notebook:
    """`ration-workload obey` under a limit: takes a cell, answers when it is done."""

    def __init__(self, case, name, *options, limit="4GiB"):
        self.process = subprocess.Popen([BIN / "ration", "run", *case.node.split(), "--name", name, "--limit", limit, *options, "--", BIN / "ration-workload", "obey"],
                                        env=case.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        case.addCleanup(self.kill)

    def say(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def answer(self):
        return int(self.process.stdout.readline() or -1)

    def cell(self, order):
        self.say(order)
        return self.answer()

    def end(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def kill(self):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except BrokenPipeError:
                pass


class Suspending(Case):
    configuration = """
[[policy]]
match = { label = { class = "production" } }
idle = { after = "1s", action = "report" }
[[policy]]
match = { users = ["*"] }
idle = { after = "1s", action = "suspend" }
"""

    def away(self, name):
        return self.until(lambda: self.row(name)["state"] == "suspended", f"{name} suspended")

    def free(self):
        return self.get("/api/v1/devices")[0]["free_bytes"]

    def test_an_idle_program_leaves_and_comes_back_when_it_works(self):
        notebook = Notebook(self, "notebook")
        self.assertEqual(notebook.cell("take 3072"), 0)
        self.away("notebook")
        row = self.row("notebook")
        self.assertEqual((row["used_bytes"], row["suspended_bytes"]), (0, 3072 * MIB + CONTEXT))
        self.assertEqual(self.free(), 16 * GIB, "its bytes are free for others")
        self.explains_what_is_away()
        self.assertEqual(notebook.cell("take 512"), 0, "it goes on where it was")
        row = self.until(lambda: (lambda row: row if row["state"] == "running" else None)(self.row("notebook")), "it is back")
        self.assertEqual((row["used_bytes"], row["suspended_bytes"]), (3584 * MIB + CONTEXT, 0))
        kinds = [event["type"] for event in self.events("suspended", "resuming", "resumed")]
        self.assertEqual(kinds[:3], ["suspended", "resuming", "resumed"])

    def explains_what_is_away(self):
        def explained(*what):
            return json.loads(self.ration("explain", *what, NODE, "-o", "json").stdout)["data"]
        device = explained("--gpu", "0")
        self.assertEqual((device["used_bytes"], sum(row["bytes"] for row in device["rows"] if row["id"] != "free")), (0, 0), "it is not on the device")
        account = explained("notebook")[0]
        self.assertEqual((account["used_bytes"], account["suspended_bytes"]), (0, 3072 * MIB + CONTEXT))
        tenant = explained("--tenant", self.row("notebook")["tenant"])["devices"][0]
        self.assertEqual((tenant["used_bytes"], tenant["suspended_bytes"]), (0, 3072 * MIB + CONTEXT))
        self.assertEqual({row["bytes"] for row in tenant["rows"]}, {0, None})
        self.assertEqual(tenant["driver_bytes"], 0)
        self.assertIn("on GPU 0 Tesla T4: 3.06 GiB are in host memory", self.ration("explain", "notebook", NODE).stdout)

    def asks_without_room(self):
        """A notebook that is away and wants to come back, and another one that has the card."""
        notebook = Notebook(self, "notebook")
        self.assertEqual(notebook.cell("take 3072"), 0)
        self.away("notebook")
        other = Notebook(self, "other", "--label", "class=production", limit="15GiB")
        self.assertEqual(other.cell("take 14336"), 0)
        notebook.say("take 512")
        self.until(lambda: self.events("resuming"), "it asks")
        return notebook, other

    def test_it_waits_for_room_and_is_not_refused(self):
        notebook, other = self.asks_without_room()
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 20, "time to idle for the other")
        self.assertEqual((self.row("notebook")["state"], self.row("other")["state"]), ("resuming", "running"))
        self.assertEqual(other.end(), 0)
        self.assertEqual(notebook.answer(), 0)
        self.assertEqual(self.events("denied", "suspend_failed"), [])

    def test_by_hand_it_stays_away_until_it_is_called(self):
        notebook = Notebook(self, "notebook")
        self.assertEqual(notebook.cell("take 1024"), 0)
        done = self.ration("suspend", "notebook")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("suspended", done.stdout)
        notebook.say("take 512")
        looks = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 5, "five looks")
        self.assertEqual(self.row("notebook")["state"], "suspended", "its work does not bring it back")
        self.holding("neighbour", "1GiB", "--limit", "2GiB")
        full = self.ration("fits", "16GiB", NODE).stderr
        self.assertIn("Held by neighbour 1.06 GiB.", full, "who is suspended holds nothing")
        done = self.ration("suspend", "notebook")
        self.assertEqual((done.returncode, done.stderr.split()[0]), (4, "E1546"))
        done = self.ration("resume", "notebook")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(notebook.answer(), 0)

    def test_what_is_suspended_outlives_the_daemon_and_is_found_again(self):
        notebook = Notebook(self, "notebook")
        self.assertEqual(notebook.cell("take 1024"), 0)
        self.away("notebook")
        self.stop(signal.SIGKILL)
        notebook.say("take 512")  # while nobody sees it
        self.start()
        self.assertEqual(notebook.answer(), 0)

    def test_without_a_daemon_a_person_brings_it_back(self):
        notebook = Notebook(self, "notebook")
        self.assertEqual(notebook.cell("take 1024"), 0)
        self.away("notebook")
        self.stop(signal.SIGKILL)
        done = self.ration("resume", "notebook", NODE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(notebook.cell("take 512"), 0)

    def test_a_daemon_sees_that_somebody_else_brought_it_back(self):
        notebook = Notebook(self, "notebook")
        self.assertEqual(notebook.cell("take 1024"), 0)
        self.assertEqual(self.ration("suspend", "notebook").returncode, 0)
        self.stop(signal.SIGKILL)
        self.assertEqual(self.ration("resume", "notebook", NODE).returncode, 0)
        self.assertIn("E1546", self.ration("resume", "notebook", NODE).stderr, "it is there")
        self.start()
        row = self.until(lambda: (lambda row: row if row["state"] == "running" else None)(self.row("notebook")), "it is here")
        self.assertEqual((row["used_bytes"], row["suspended_bytes"]), (1024 * MIB + CONTEXT, 0))

    def test_killing_it_while_it_is_away_leaves_nothing(self):
        notebook = Notebook(self, "notebook")
        self.assertEqual(notebook.cell("take 1024"), 0)
        self.away("notebook")
        os.kill(self.row("notebook")["processes"][0]["pid"], signal.SIGKILL)
        self.until(lambda: "notebook" not in self.rows(), "it is gone")
        self.assertEqual(self.free(), 16 * GIB)

    def test_who_ends_while_it_waits_to_come_back_is_forgotten(self):
        _, other = self.asks_without_room()
        os.kill(self.row("notebook")["processes"][0]["pid"], signal.SIGKILL)
        self.until(lambda: "notebook" not in self.rows(), "it is gone")
        self.assertEqual(other.end(), 0)
        self.assertEqual(Notebook(self, "next", "--wait", limit="16GiB").cell("take 15360"), 0)

    def test_strangers_may_not(self):
        if os.getuid() != 0:
            self.skipTest("needs to become another user")
        os.chmod(self.folder, 0o755)
        os.chmod(self.folder / "ration.sock", 0o666)
        Notebook(self, "notebook").cell("take 1024")
        for action in ("suspend", "resume", "trim"):
            status, problem = self.as_nobody("POST", f"/api/v1/workloads/notebook/{action}", "{}")
            self.assertEqual((status, problem["id"]), (403, "E1502"))
        self.assertEqual(self.ration("suspend", "nobody-there").returncode, 3)

    def test_the_time_away_is_not_charged(self):
        notebook = Notebook(self, "notebook", "--tenant", "nlp")
        self.assertEqual(notebook.cell("take 3072"), 0)
        self.away("notebook")

        def charged():
            lines = self.ration("report", "--by", "tenant", "--window", "24h", "-o", "json")
            rows = json.loads(lines.stdout)["data"]["rows"]
            return next((row for row in rows if row["name"] == "nlp"), None)

        def stored():
            looks = self.get("/api/v1/health")["looks"]
            self.until(lambda: self.get("/api/v1/health")["looks"] > looks + 20, "more looks than there are between two commits")
        stored()  # the time until it was away
        before = self.until(charged, "a line of the tenant")
        stored()
        self.assertEqual(self.row("notebook")["state"], "suspended")
        self.assertEqual(charged()["used_byte_seconds"], before["used_byte_seconds"])


class RareLooks(Case):
    """A daemon that looks of itself once an hour: what follows from a look, or from a move of memory, does not wait for the next one."""
    pace = "1h"

    def looks(self):
        return self.get("/api/v1/health")["looks"]  # a question for which it does not look

    def after(self, *actions, looks):
        """Each action is a look, too, before it is done."""
        before = self.looks()
        for action in actions:
            status, answer = self.ask("POST", f"/api/v1/workloads/notebook/{action}")
            self.assertEqual(status, 202, answer)
        self.until(lambda: self.looks() >= before + len(actions) + looks, f"{looks} looks after {actions}")

    def test_it_leaves_and_comes_back(self):
        notebook = Notebook(self, "notebook")
        self.assertEqual(notebook.cell("take 1024"), 0)
        self.after("suspend", looks=1)
        self.assertEqual(len(self.events("suspended")), 1)
        notebook.say("take 512")
        self.after("resume", "trim", looks=2)  # it begins to move, and has moved
        self.assertEqual(len(self.events("resumed")), 1)
        self.assertEqual(notebook.answer(), 0)


class Refusing(Case):
    """What the driver does not move, or was not seen to move, destroys a program that is suspended."""
    configuration = """
[[policy]]
match = { users = ["*"] }
idle = { after = "1s", action = "suspend" }
"""

    def stays(self, notebook, *reasons):
        """By hand and by the idle policy; it works on."""
        done = self.ration("suspend", "notebook")
        self.assertEqual((done.returncode, done.stderr.split()[0]), (4, "E1547"), done.stderr)
        event = self.until(lambda: next((event for event in self.events("idle") if "cannot be suspended" in event["text"]), None), "it was idle")
        for reason in reasons:
            self.assertIn(reason, done.stderr)
        self.assertIn(reasons[0], event["text"])
        self.assertEqual(self.events("suspending", "suspended"), [])
        self.assertEqual((self.row("notebook")["state"], notebook.cell("take 1")), ("running", 0))
        return done.stderr

    def restart_on(self, node):
        self.stop()
        self.node = node
        self.start()

    def suspends(self, notebook):
        done = self.ration("suspend", "notebook")
        if done.returncode != 0:
            self.assertEqual(done.stderr.split()[0], "E1546", "unless the policy did it before")
        done = self.ration("resume", "notebook")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(notebook.cell("take 1"), 0)

    def test_managed_memory(self):
        for driver in ("580", "610"):
            with self.subTest(driver):
                self.restart_on(f"{NODE},driver={driver}")
                notebook = Notebook(self, "notebook")
                self.assertEqual([notebook.cell(order) for order in ("take 512", "managed 64", "free")], [0, 0, 0])
                self.row("notebook")
                self.assertIn("ration trim ", self.stays(notebook, "managed memory, which no release of the driver moves"))
                self.assertEqual(notebook.end(), 0)
                self.until(lambda: "notebook" not in self.rows(), "it is gone")

    def test_memory_known_to_other_processes(self):
        notebook = Notebook(self, "notebook")
        self.assertEqual(notebook.cell("take 512"), 0)
        notebook.cell("ipc 64")  # which it has nobody to send to
        self.row("notebook")
        said = self.stays(notebook, "has exported memory to other processes, or imported it", "Drivers before release 610", "driver 580.0")
        self.assertIn("ration doctor --try-suspend", said)

    def test_shared_memory_is_moved_where_that_was_seen(self):
        self.restart_on(f"{NODE},driver=610")
        notebook = Notebook(self, "notebook")
        notebook.cell("ipc 64")
        self.row("notebook")
        self.stays(notebook, "has exported memory")
        done = self.ration("doctor", self.node, "--try-suspend", "--only", "suspend")
        self.assertIn("plain and shared memory moved to the host and back", done.stdout)
        self.suspends(notebook)

    def test_a_trial_tells_what_the_driver_moves(self):
        done = self.ration("doctor", self.node, "--try-suspend", "--only", "suspend")
        self.assertEqual(done.returncode, 0)
        self.assertIn("plain memory moved to the host and back", done.stdout)
        self.assertIn("the driver does not move memory that two processes hold: the driver failed to checkpoint pid", done.stdout)
        done = self.ration("doctor", "--sim=T4,driver=560", "--try-suspend", "--only", "suspend")
        self.assertIn("WARN", done.stdout)
        self.assertIn("driver 570 or newer", done.stdout)

    def test_without_persistence_mode(self):
        path = self.folder / "node.toml"
        path.write_text('[[device]]\nmodel = "T4"\nmemory = "16GiB"\ncontext = "64MiB"\npersistence = "off"\n')
        self.restart_on(f"--sim={path}")
        notebook = Notebook(self, "notebook")
        self.assertEqual(notebook.cell("take 512"), 0)
        self.row("notebook")
        self.assertIn("nvidia-smi -i 0 -pm 1", self.stays(notebook, "GPU 0 (Tesla T4) is not in persistence mode"))

    def test_nothing_is_moved_by_a_driver_that_was_not_tried(self):
        """The simulated driver stands where the machine's own would."""
        self.environment.update(LD_LIBRARY_PATH=str(BIN.parent / "sim"), RATION_SIM_DIR=str(self.folder / "sim"))
        self.restart_on("")
        notebook = Notebook(self, "notebook")
        self.assertEqual(notebook.cell("take 512"), 0)
        self.row("notebook")
        said = self.stays(notebook, "it is not known whether driver 580.0 can move a program's memory off GPU 0 (Tesla T4)")
        self.assertRegex(said, "ration doctor .*--try-suspend")
        done = self.ration("doctor", "--try-suspend", "--only", "suspend")
        self.assertIn("moved to the host and back", done.stdout)
        self.suspends(notebook)


class MoreNotebooksThanMemory(Case):
    maxDiff = None
    """Twelve notebooks of 4 GiB on a card of 16 GiB, three of them active at a time."""
    configuration = Suspending.configuration
    notebooks, active, cells = 12, 3, 3

    def test_all_finish_and_none_is_refused(self):
        choose = random.Random(1)
        turns = threading.Semaphore(self.active)
        problems, everybody = [], threading.Barrier(self.notebooks)

        def work(number):
            notebook = Notebook(self, f"notebook-{number}", "--wait")
            for cell in range(self.cells):
                with turns:
                    try:
                        answer = notebook.cell("take 3072" if cell == 0 else "take 256")
                    except BrokenPipeError:
                        answer = notebook.process.wait(), notebook.process.stderr.read()
                if answer != 0:
                    problems.append(f"notebook {number}, cell {cell}: {answer}")
                everybody.wait()  # all stay open to the end
            if not problems and notebook.end() != 0:
                problems.append(f"notebook {number} ended with {notebook.process.returncode}")

        order = list(range(self.notebooks))
        choose.shuffle(order)
        threads = [threading.Thread(target=work, args=(number,)) for number in order]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual("\n".join(problems), "")
        self.assertEqual(self.events("denied", "suspend_failed", "guard_lost", "violation"), [])
        self.assertGreaterEqual(len(self.events("suspended")), self.notebooks - 4, "that many had no room beside the others")


class Standstill(Case):
    def test_two_that_wait_for_each_other_go_on_one_after_the_other(self):
        one, other = (Notebook(self, name, "--on-deny", "wait", limit="12GiB") for name in ("one", "other"))
        for notebook in (one, other):
            self.assertEqual(notebook.cell("take 7168"), 0)
        one.say("take 4096")
        self.until(lambda: self.row("one")["state"] == "waiting", "the first one waits")
        other.say("take 4096")
        self.assertEqual(one.answer(), 0, "it waited longer")
        event = self.events("suspending")[0]
        self.assertIn("/other is being suspended, because 2 workloads on GPU 0 hold memory and wait for more", event["text"])
        self.assertIn("/one, which has waited longer", self.ration("why", str(event["id"])).stdout)
        lease = self.until(lambda: self.get("/api/v1/leases"), "it asks to come back")[0]
        self.assertIn("/one, and still waits", self.ration("why", lease["lease"]).stdout)
        self.assertEqual(one.end(), 0)
        self.assertEqual(other.answer(), 0)
        self.assertEqual(self.events("denied", "suspend_failed", "guard_lost", "violation"), [])


class Trimming(Case):
    def test_a_program_that_does_not_cooperate_keeps_what_it_has(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        done = self.ration("trim", "train")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("gave back nothing", done.stdout)
        self.assertEqual(self.row("train")["used_bytes"], GIB + CONTEXT)

    def test_a_program_that_does_gives_back_what_is_free_in_it(self):
        program = ("import ctypes, ration\n"
                   "library = ration._native.library\n"
                   "library.ration_torch_alloc.restype = ctypes.c_void_p\n"
                   "library.ration_torch_alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]\n"
                   "library.ration_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]\n"
                   "kept, free = (library.ration_torch_alloc(size << 20, 0, None) for size in (512, 2048))\n"
                   "library.ration_torch_free(free, 2048 << 20, 0, None)\n"
                   "print('free', flush=True)\n"
                   "input()\n")
        environment = dict(self.environment, PYTHONPATH=str(SOURCE / "libration/python"))
        holder = subprocess.Popen([BIN / "ration", "run", NODE, "--name", "pool", "--limit", "4GiB", "--", "python3", "-c", program],
                                  env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (holder.kill(), holder.communicate()))
        self.assertEqual(holder.stdout.readline(), "free\n")
        done = self.ration("trim", "pool", "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(json.loads(done.stdout)["data"][0]["bytes"], GIB)

    def test_who_is_idle_is_asked(self):
        self.holding("train", "1GiB", "--limit", "2GiB")
        self.row("train")
        done = self.ration("trim", "--idle", "0s", "--dry-run")
        self.assertIn("train", done.stdout)
        self.assertEqual(self.events("trimmed"), [])
        self.assertIn("no workload was idle for 1h", self.ration("trim", "--idle", "1h").stdout)


if __name__ == "__main__":
    unittest.main()
