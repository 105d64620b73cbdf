#!/usr/bin/env python3
"""Where a machine's daemon and its clients meet: folders, sockets, and two daemons on one machine. Each test has a /run and a /tmp of its own."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node_client import BIN, GIB, UnixConnection, until  # noqa: E402
from own_machine import CHECKOUT  # noqa: E402

NODE, OTHER_NODE = "--sim=T4:16GiB:context=64MiB", "--sim=A100-40"
NOBODY = 65534
# Mounts are seen by what is started here alone; the folders behind them are the test's.
ENTER = CHECKOUT + 'hold_checkout && mount --bind "$0/run" /run && mount --bind "$0/tmp" /tmp && { [ ! -d "$0/etc" ] || mount --bind "$0/etc" /etc; } && put_checkout_back && exec "$@"'

# Locks a file as a daemon does, until its input ends.
CLAIM = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY | os.O_CREAT, 0o644), fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@unittest.skipUnless(os.getuid() == 0, "needs a /run of its own")
class Machine(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp"))  # /tmp is another one for what it starts
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        for name, mode in (("run", 0o755), ("tmp", 0o1777), ("sim", 0o700), ("home", 0o755)):
            (self.folder / name).mkdir()
            (self.folder / name).chmod(mode)
        (self.folder / "home/ration.toml").write_text('[daemon]\nsample = "100ms"\nsample_idle = "100ms"\n')
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "CUDA_", "XDG_"))}
        self.environment = dict(own, RATION_SIM_DIR=str(self.folder / "sim"), HOME=str(self.folder / "home"), LC_ALL="C.UTF-8",
                                RATION_CONFIG=str(self.folder / "home/ration.toml"))
        self.machine = self.folder / "run/ration"

    def words(self, *arguments, user=None):
        drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        return ["unshare", "--mount", "--propagation", "private", "bash", "-c", ENTER, self.folder, *drop, *map(str, arguments)]

    def ration(self, *arguments, user=None, **env):
        return subprocess.run(self.words(BIN / "ration", *arguments, user=user), env=dict(self.environment, **env), capture_output=True,
                              text=True, timeout=100)

    def daemon(self, *options, state="state", node=NODE, listen=("--listen", ""), preexec=None, **env):
        process = subprocess.Popen(self.words(BIN / "rationd", *([node] if node else []), *listen, "--state", self.folder / state, *options),
                                   env=dict(self.environment, **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   preexec_fn=preexec)
        self.addCleanup(lambda: (process.send_signal(signal.SIGTERM), process.communicate()))
        line = process.stdout.readline()
        self.assertIn("ration", line, process.stderr.read() if not line else "")
        process.greeting = line
        return process

    def holding(self, name, *options, size="1GiB", node=NODE, user=None, **env):
        process = subprocess.Popen(self.words(BIN / "ration", "run", node, "--name", name, "--limit", "2GiB", *options, "--",
                                              BIN / "ration-workload", "hold", size, user=user),
                                   env=dict(self.environment, **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        line = process.stdout.readline()
        self.assertIn("holding", line, process.stderr.read() if not line else "")
        return process

    def get(self, path, socket=None):
        connection = UnixConnection(socket or self.machine / "ration.sock")
        connection.request("GET", path)
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        self.assertEqual(answer.status, 200, content)
        return content["data"]

    def rows(self, socket=None):
        return {row["workload"]: row for row in self.get("/api/v1/workloads", socket)}

    def looks(self, socket=None):
        before = self.get("/api/v1/health", socket)["looks"]
        until(lambda: self.get("/api/v1/health", socket)["looks"] > before + 5, "five looks")

    def events(self, *types, socket=None):
        return [event["text"] for event in self.get("/api/v1/events?limit=1000&type=" + ",".join(types), socket)]

    @staticmethod
    def mode(path):
        return oct(path.stat().st_mode & 0o7777)


class WithoutADaemon(Machine):
    """Two users share a node: one works, in a folder of their own choice or in the usual one, and others look."""

    def setUp(self):
        super().setUp()
        (self.folder / "sim").chmod(0o1777)

    def listed(self, user=None):
        done = self.ration("ps", NODE, "--json", user=user)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        return answer["data"], answer["devices"][0]

    def test_root_reads_the_books_of_all_users(self):
        (self.folder / "tmp/own").mkdir(mode=0o700)
        os.chown(self.folder / "tmp/own", NOBODY, NOBODY)
        self.holding("train", user=NOBODY)
        self.holding("serve", user=NOBODY, RATION_RUNTIME_DIR=str(self.folder / "tmp/own"))
        rows, device = self.listed()
        self.assertEqual(sorted((row["workload"], row["governed"], row["user"]) for row in rows), [("serve", True, "nobody"), ("train", True, "nobody")])
        self.assertEqual(device["ungoverned_bytes"], 0)
        self.assertNotIn("UNGOVERNED", self.ration("ps", NODE).stdout)

    def test_root_ends_the_workload_of_another_user(self):
        program = self.holding("train", user=NOBODY)
        self.assertIn("E1801", self.ration("stop", NODE, "train", "--yes", user=NOBODY - 1).stderr)
        self.assertIn("Did you mean 'train'?", self.ration("stop", NODE, "trian", "--yes").stderr)
        done = self.ration("stop", NODE, "train", "--yes")
        self.assertEqual((done.returncode, done.stdout), (0, "train of nobody: ended\n"), done.stderr)
        program.wait(60)

    def test_of_others_processes_users_learn_that_nothing_is_known(self):
        self.holding("train", user=NOBODY)
        (row,), device = self.listed(user=NOBODY - 1)
        self.assertEqual((row["governed"], row["processes"][0]["state"], device["ungoverned_bytes"]), (None, "unknown", None))
        self.assertIn("only a daemon of root sees", row["workload_na"])
        shown = self.ration("ps", NODE, user=NOBODY - 1).stdout
        self.assertNotIn("UNGOVERNED", shown)
        explained = self.ration("explain", NODE, str(row["processes"][0]["pid"]), user=NOBODY - 1)
        self.assertIn("belongs to nobody: only root, or a daemon of root, sees whether a limit applies", explained.stdout)

    def test_ones_own_ungoverned_program_has_a_name(self):
        process = subprocess.Popen(self.words(BIN / "ration-workload", "hold", "1GiB", user=NOBODY), stdout=subprocess.PIPE, text=True,
                                   env=dict(self.environment, RATION_SIM=NODE.removeprefix("--sim="), LD_LIBRARY_PATH=str(BIN.parent / "sim")))
        self.addCleanup(lambda: (process.terminate(), process.communicate()))
        self.assertIn("holding", process.stdout.readline())
        self.daemon()
        until(lambda: self.get("/api/v1/workloads"), "a row")
        for user, name in ((NOBODY, "?/ration-workload "), (NOBODY - 1, "?/- ")):
            self.assertIn(name, self.ration("ps", NODE, user=user).stdout)
        self.assertIn("UNGOVERNED", self.ration("ps", NODE, user=NOBODY).stdout)


class Operators(Machine):
    """A daemon of root, a workload of one user, and another user who is a member of group ration."""

    OPERATOR = 65530

    def setUp(self):
        super().setUp()
        (self.folder / "sim").chmod(0o1777)
        shutil.copytree("/etc", self.folder / "etc", symlinks=True)
        for name, line in (("passwd", f"bob:x:{self.OPERATOR}:{self.OPERATOR}::/:/bin/sh\n"), ("group", "ration:x:65531:bob\n")):
            with open(self.folder / "etc" / name, "a") as file:
                file.write(line)

    def test_an_operator_ends_a_users_workload_and_nobody_else_does(self):
        self.daemon()
        program = self.holding("train", user=NOBODY)
        done = self.ration("stop", NODE, "train", "--yes", user=NOBODY - 2)
        self.assertIn("E1502 ration: you may not end workload train (owner nobody)", done.stderr)
        self.assertIsNone(program.poll())
        done = self.ration("stop", NODE, "train", "--yes", user=self.OPERATOR)
        self.assertEqual((done.returncode, done.stdout), (0, "train of nobody: ended\n"), done.stderr)
        program.wait(60)

    def test_several_names_and_places_in_the_queue(self):
        self.daemon()
        programs = [self.holding(name) for name in ("one", "two")]
        waiting = subprocess.Popen(self.words(BIN / "ration", "run", NODE, "--wait", "--limit", "14GiB", "--", "true"), env=self.environment, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (waiting.kill(), waiting.communicate()))
        lease = until(lambda: self.get("/api/v1/leases"), "it waits")[0]["lease"]
        self.assertEqual(self.ration("stop", NODE, lease, "--yes", user=self.OPERATOR).stdout, f"{lease}: removed from the queue\n")
        self.assertEqual(waiting.wait(60), 4)
        done = self.ration("stop", NODE, "one", "two", "--yes")
        self.assertEqual(done.stdout.count("ended"), 2, done.stderr)
        for program in programs:
            program.wait(60)


class TheMachines(Machine):
    """The daemon of the machine is root's; a user starts another one."""

    def setUp(self):
        super().setUp()
        (self.folder / "sim").chmod(0o1777)
        (self.folder / "tmp/state").mkdir(mode=0o700)
        os.chown(self.folder / "tmp/state", NOBODY, NOBODY)
        (self.folder / "home/ration.toml").write_text('[daemon]\nsample = "100ms"\nsample_idle = "100ms"\n[defaults]\nungoverned = "terminate"\ngrace = "1s"\n')

    def of_the_user(self, node=NODE):
        return self.words(BIN / "rationd", node, "--listen", "", "--state", self.folder / "tmp/state", user=NOBODY)

    def test_a_user_starts_no_second_one_of_the_same_gpus(self):
        self.daemon()
        self.looks()
        done = subprocess.run(self.of_the_user(), env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr.split()[0]), (1, "E1504"), done.stderr)
        self.assertIn("root's daemon governs the GPUs of this machine already", done.stderr)
        other = subprocess.Popen(self.of_the_user(OTHER_NODE), env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (other.terminate(), other.communicate()))
        self.assertIn("ration", other.stdout.readline(), "other GPUs are the user's own affair")

    def test_that_of_a_user_ends_when_the_machines_starts_and_nobody_is_ended(self):
        users = subprocess.Popen(self.of_the_user(), env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (users.kill(), users.communicate()))
        self.assertIn("ration", users.stdout.readline())
        program = self.holding("train", user=NOBODY)
        self.daemon()
        self.assertEqual(users.wait(60), 0)
        self.looks()
        self.assertEqual([(name, row["governed"]) for name, row in self.rows().items()], [("train", True)])
        self.assertEqual((self.events("alert", "ungoverned", "violation"), program.poll()), ([], None))

    def test_a_process_of_a_user_that_claims_a_folder_keeps_nothing_from_root(self):
        program = self.holding("train", user=NOBODY)
        (folder,) = (self.folder / "tmp").glob(f"ration-{NOBODY}")
        for name in ("daemon.lock", "adopted.lock"):
            with self.subTest(name):
                claim = subprocess.Popen(self.words(sys.executable, "-c", CLAIM, f"/tmp/{folder.name}/{name}", user=NOBODY), env=self.environment,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                self.addCleanup(lambda claim=claim: claim.poll() is None and claim.communicate())
                self.assertEqual(claim.stdout.readline(), "locked\n")
                daemon = self.daemon(state=name)
                self.looks()
                self.assertEqual([(key, row["governed"]) for key, row in self.rows().items()], [("train", True)])
                self.assertEqual((self.events("alert", "ungoverned", "violation"), program.poll()), ([], None))
                daemon.send_signal(signal.SIGTERM)
                daemon.wait(60)
                claim.communicate()

    def test_a_user_of_a_machine_whose_daemon_died_is_sent_to_root(self):
        daemon = self.daemon()
        daemon.kill()
        daemon.wait()
        done = self.ration("run", NODE, "--wait", "--limit", "1GiB", "--", "true", user=NOBODY)
        self.assertIn("E1501 ration: the daemon of this machine does not answer", done.stderr)
        said = "the daemon of this machine does not run: limits of tenants, guarantees and the queue do not hold now"
        self.assertIn(said, self.ration("ps", NODE, user=NOBODY).stdout)
        self.assertNotIn(said, self.ration("ps", OTHER_NODE, user=NOBODY).stdout, "of GPUs that it never governed")
        self.daemon(state="another")
        self.assertNotIn(said, self.ration("ps", NODE, user=NOBODY).stdout)


class TheMachinesFile(Machine):
    """/etc/ration/ration.toml, for all users."""

    def setUp(self):
        super().setUp()
        (self.folder / "sim").chmod(0o1777)
        del self.environment["RATION_CONFIG"]
        shutil.copytree("/etc", self.folder / "etc", symlinks=True)
        self.file = self.folder / "etc/ration/ration.toml"
        self.file.parent.mkdir(exist_ok=True)
        self.write("limit = \"3GiB\"")

    def write(self, line):
        self.file.write_text(f'[daemon]\nsample = "100ms"\n[defaults]\n{line}\n')

    def limit(self):
        done = self.ration("run", NODE, "--dry-run", "--json", "--", "true", user=NOBODY)
        return done.stderr or json.loads(done.stdout)["data"]["accounts"][0]["limit_bytes"]

    def test_a_mistake_in_it_stops_no_users_program(self):
        self.daemon()
        self.write("limit = 3GiB")
        self.assertEqual(self.limit(), 3 * GIB)
        self.assertIn("E1601", self.ration("config", "reload").stderr)
        self.assertEqual(self.limit(), 3 * GIB)
        self.write("limit = \"2GiB\"")
        self.ration("config", "reload")
        self.write("limits = \"4GiB\"")
        self.assertEqual(self.limit(), 2 * GIB)
        done = self.ration("inject", "docker", "--limit", "1GiB", NODE, "--dry-run", "--", "run", "image", user=NOBODY)
        self.assertEqual((done.returncode, done.stderr), (0, ""), "a container starts, too")

    def test_a_daemon_at_another_socket_is_found_in_spite_of_a_mistake(self):
        self.file.write_text(f'[daemon]\nsample = "100ms"\nsocket = "{self.machine}/own.sock"\n')
        (self.folder / "run/ration").mkdir()
        self.daemon()
        self.file.write_text("[daemon]\nsockets = 1\n")
        self.assertEqual(json.loads(self.ration("ps", NODE, "--json", user=NOBODY).stdout)["source"], "daemon")

    def test_nobody_but_root_says_what_was_accepted(self):
        self.write("limit = 3GiB")
        self.assertIn("E1601", self.limit())
        self.machine.mkdir(exist_ok=True)
        (self.machine / "accepted.toml").write_text("defaults.limit = \"9GiB\"\n")
        os.chown(self.machine / "accepted.toml", NOBODY, NOBODY)
        self.assertIn("E1601", self.limit())


class OneDaemon(Machine):
    def test_whoever_started_it_everybody_finds_it(self):
        self.daemon(preexec=lambda: os.umask(0o077))
        self.assertEqual((self.mode(self.machine), self.mode(self.machine / "books")), ("0o755", "0o700"))
        done = self.ration("events", user=NOBODY)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_who_may_not_look_is_told_so(self):
        daemon = self.daemon()
        daemon.send_signal(signal.SIGSTOP)  # else it opens the folder again at its next tick
        self.addCleanup(daemon.send_signal, signal.SIGCONT)
        self.machine.chmod(0o700)
        for words in (["events"], ["run", NODE, "--limit", "1GiB", "--", "true"]):
            done = self.ration(*words, user=NOBODY, RATION_SIM_DIR=str(self.folder / "tmp/sim"))
            self.assertEqual((done.returncode, done.stderr.split()[0]), (5, "E1502"), done.stderr)
            self.assertIn("/run/ration", done.stderr)

    def test_a_folder_of_an_earlier_version_is_opened(self):
        self.machine.mkdir(mode=0o700)
        self.daemon()
        self.assertEqual(self.mode(self.machine), "0o755")

    def test_books_count_wherever_they_lie(self):
        self.daemon()
        self.holding("train", RATION_RUNTIME_DIR=str(self.folder / "home/books"))
        self.looks()
        self.assertEqual([(name, row["governed"]) for name, row in self.rows().items()], [("train", True)])
        self.assertEqual(self.events("ungoverned"), [])

    def test_what_is_removed_under_it_is_made_again(self):
        daemon = self.daemon()
        for remove in (lambda: (self.machine / "ration.sock").unlink(), lambda: shutil.rmtree(self.machine)):
            remove()
            until((self.machine / "ration.sock").exists, "a socket again")
            self.assertEqual(self.ration("events").returncode, 0)
        self.assertEqual(self.mode(self.machine), "0o755")
        self.holding("train")
        self.assertIn("train", self.rows())
        second = subprocess.run(self.words(BIN / "rationd", NODE, "--state", self.folder / "other", "--listen", ""), env=self.environment,
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(second.stderr.split()[0], "E1504")
        self.assertIn(str(daemon.pid), second.stderr)

    def test_a_place_that_somebody_else_took_is_left_to_them(self):
        self.daemon()
        self.machine.rename(self.folder / "run/moved")
        (self.machine).mkdir()
        os.chown(self.machine, NOBODY, NOBODY)
        until(lambda: any(check["id"] == "socket" and check["status"] == "warn" for check in
                          self.get("/api/v1/health", self.folder / "run/moved/ration.sock")["checks"]), "it says so")
        self.assertEqual(list(self.machine.iterdir()), [])

    def test_a_folder_that_somebody_else_made_is_not_used(self):
        (self.folder / f"tmp/ration-{NOBODY}").mkdir(mode=0o777)
        (self.folder / "tmp/sim").mkdir()
        os.chown(self.folder / "tmp/sim", NOBODY, NOBODY)
        for _ in range(2):
            done = self.ration("run", NODE, "--limit", "1GiB", "--", "true", user=NOBODY, RATION_SIM_DIR=str(self.folder / "tmp/sim"))
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list((self.folder / f"tmp/ration-{NOBODY}").iterdir()), [])
        (own,) = (self.folder / "tmp").glob(f"ration-{NOBODY}.*")
        self.assertEqual((own.stat().st_uid, self.mode(own)), (NOBODY, "0o700"))
        done = self.ration("run", NODE, "--limit", "1GiB", "--", "true", user=NOBODY, RATION_SIM_DIR=str(self.folder / "tmp/sim"),
                           RATION_RUNTIME_DIR="/run")
        self.assertEqual((done.returncode, done.stderr.split()[0]), (125, "E1405"))
        self.assertIn("belongs to uid 0", done.stderr)

    def test_a_simulated_node_that_somebody_else_prepared_is_not_used(self):
        """Who guesses the name of the folder puts a link there, in a folder or a folder of links that anybody can write."""
        secret = self.folder / "tmp/secret"
        secret.write_text("root's")
        secret.chmod(0o600)
        self.environment.pop("RATION_SIM_DIR")
        self.assertEqual(self.ration("explain", NODE).returncode, 0)
        (made,) = (self.folder / "tmp/ration-sim-0").iterdir()
        number = made.name
        shutil.rmtree(made.parent)
        links = lambda at: [(at / name).symlink_to("/tmp/secret") for name in ("state", "memory0")]  # noqa: E731
        theirs = self.folder / "tmp/ration-sim-0"
        for own, mode in ((NOBODY, 0o777), (0, 0o777)):
            with self.subTest(owner=own):
                (theirs / number).mkdir(parents=True)
                links(theirs / number)
                for path in (theirs, theirs / number):
                    os.chown(path, own, own)
                    path.chmod(mode)
                for _ in range(2):
                    done = self.ration("explain", NODE)
                    self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(secret.read_text(), "root's")
                (aside,) = (self.folder / "tmp").glob("ration-sim-0.*")
                self.assertEqual((aside.stat().st_uid, self.mode(aside)), (0, "0o700"))
                shutil.rmtree(theirs)
                shutil.rmtree(aside)
        shared = self.folder / "tmp/shared"
        (shared / number).mkdir(parents=True)
        links(shared / number)
        done = self.ration("explain", NODE, RATION_SIM_DIR="/tmp/shared")
        self.assertEqual((done.returncode, done.stderr.split()[0]), (1, "E1417"), done.stderr)
        self.assertIn("not a plain file", done.stderr)
        self.assertEqual(secret.read_text(), "root's")

    def test_a_simulated_node_of_somebody_else_is_said_to_be_theirs(self):
        self.ration("explain", NODE)
        (self.folder / "sim").chmod(0o777)
        done = self.ration("explain", NODE, user=NOBODY)
        self.assertEqual((done.returncode, done.stderr.split()[0]), (1, "E1417"), done.stderr)
        self.assertRegex(done.stderr, "Permission denied")

    def test_who_may_write_into_the_folder_of_simulated_nodes_shares_them(self):
        (self.folder / "sim").chmod(0o1777)
        work = "--limit", "2GiB", "--", BIN / "ration-workload", "steps", "300MiB:0s"
        for owner, other, node in ((None, NOBODY, "--sim=T4:16GiB:context=64MiB"), (NOBODY, None, "--sim=T4:8GiB:context=64MiB")):
            with self.subTest(owner=owner):
                for user in (owner, other):
                    done = self.ration("run", node, *work, user=user)
                    self.assertEqual(done.returncode, 0, done.stderr)
                self.holding("own", node=node, user=owner)
                self.assertIn("1.06 GiB of", self.ration("ps", node, user=other).stdout)

    def test_a_runtime_folder_of_somebody_else_is_not_used(self):
        """`sudo -E` keeps the user's XDG_RUNTIME_DIR, in which that user can exchange every folder."""
        self.environment.pop("RATION_SIM_DIR")
        os.chown(self.folder / "home", NOBODY, NOBODY)
        done = self.ration("explain", NODE, XDG_RUNTIME_DIR=str(self.folder / "home"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([path.name for path in (self.folder / "home").iterdir()], ["ration.toml"])

    def test_a_history_that_is_damaged_while_nobody_asks_is_seen(self):
        first = self.daemon()
        self.looks()
        first.terminate()  # what it stored is in the file then, and not beside it
        first.wait()
        self.daemon()
        self.looks()
        path = self.folder / "state/history.db"
        with open(path, "r+b") as file:
            file.write(os.urandom(path.stat().st_size))

        def check():
            return next(check for check in self.get("/api/v1/health")["checks"] if check["id"] == "disk.history")
        self.assertIn(".damaged-", until(lambda: check()["status"] == "warn" and check()["text"], "it is told"))


class TakenPort(Machine):
    """Whoever listens on the daemon's port first."""

    def setUp(self):
        super().setUp()
        self.taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.taken.close)
        self.port = self.taken.getsockname()[1]
        try:
            self.addCleanup(socket.create_server(("127.0.0.1", 7077)).close)
        except OSError:
            pass  # somebody else has it: so much the better

    def test_the_port_that_nobody_asked_for_is_not_needed(self):
        daemon = self.daemon(listen=())
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)", daemon.greeting).group(1))
        self.assertNotEqual(port, 7077)
        (check,) = [check for check in self.get("/api/v1/health")["checks"] if check["id"] == "port"]
        self.assertEqual(check["status"], "warn")
        self.assertRegex(check["text"], rf"cannot listen on 127\.0\.0\.1:7077: .*; the address is http://127\.0\.0\.1:{port}$")
        self.assertIn(check["text"], self.events("daemon"))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/health") as answer:
            self.assertEqual(json.load(answer)["data"]["started"], self.get("/api/v1/health")["started"])
        lines = [daemon.stdout.readline() for _ in range(4)]
        self.assertTrue(any(f"http://127.0.0.1:{port}/?token=" in line for line in lines), lines)
        self.assertIn(" " + check["text"] + "\n", lines)

    def test_one_that_was_asked_for_is(self):
        (self.folder / "state").mkdir()
        (self.folder / "state/history.db").write_text("no database")
        configuration = (self.folder / "home/ration.toml").read_text()
        for typed in (True, False):
            for state in ("state", "new"):
                with self.subTest(typed=typed, state=state):
                    (self.folder / "home/ration.toml").write_text(configuration + ("" if typed else f'listen = "127.0.0.1:{self.port}"\n'))
                    done = subprocess.run(self.words(BIN / "rationd", NODE, *(["--listen", f"127.0.0.1:{self.port}"] if typed else []),
                                                     "--state", self.folder / state), env=self.environment, capture_output=True, text=True, timeout=60)
                    self.assertEqual((done.returncode, done.stderr.split()[0]), (1, "E1507"), done.stderr)
                    self.assertRegex(done.stderr, r"ration serve .*--listen 127\.0\.0\.1:0 ")
        self.assertEqual([path.name for path in (self.folder / "state").iterdir()], ["history.db"])
        self.assertFalse((self.folder / "new").exists())

    def test_a_second_daemon_leaves_nothing(self):
        self.daemon()
        second = subprocess.run(self.words(BIN / "rationd", NODE, "--state", self.folder / "new"), env=self.environment, capture_output=True,
                                text=True, timeout=60)
        self.assertEqual((second.returncode, second.stderr.split()[0]), (1, "E1504"), second.stderr)
        self.assertFalse((self.folder / "new").exists())


class RemovedHistory(Machine):
    def test_a_history_that_was_removed_is_begun_anew_and_said_so(self):
        self.daemon()
        self.holding("train")
        for remove in (lambda: (self.folder / "state/history.db").unlink(), lambda: shutil.rmtree(self.folder / "state")):
            self.looks()
            remove()
            self.looks()
            (check,) = [check for check in self.get("/api/v1/health")["checks"] if check["id"] == "disk.history"]
            self.assertEqual(check["status"], "warn")
            self.assertIn("was removed, and a new one was started", check["text"])
            done = self.ration("report", "--window", "1h")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("The lines add up", done.stdout)
            self.assertIn("before that the daemon was not running", done.stdout)


class TwoDaemons(Machine):
    def test_each_leaves_the_books_of_the_other_alone(self):
        own = self.folder / "tmp/ration-demo-other"
        there = {"RATION_RUNTIME_DIR": "/tmp/ration-demo-other"}
        self.daemon(state="other-state", **there)
        self.holding("theirs", **there)
        self.daemon()
        self.holding("ours")
        done = self.ration("set", "theirs", "--limit", "3GiB", **there)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.looks()
        self.looks(own / "ration.sock")
        governed = lambda rows: sorted(name for name, row in rows.items() if name)  # noqa: E731
        self.assertEqual((governed(self.rows()), governed(self.rows(own / "ration.sock"))), (["ours"], ["theirs"]))
        self.assertEqual(self.rows(own / "ration.sock")["theirs"]["limit_bytes"], 3 * GIB)
        for socket in (None, own / "ration.sock"):
            self.assertEqual(self.events("violation", "guard_lost", "ended", socket=socket), [])

    def test_a_folder_has_one_daemon(self):
        first = self.daemon()
        second = subprocess.run(self.words(BIN / "rationd", NODE, "--listen", "", "--state", self.folder / "other", "--socket",
                                           self.folder / "other.sock"), env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((second.returncode, second.stderr.split()[0]), (1, "E1504"), second.stderr)
        self.assertEqual(re.search(r"pid (\d+)", second.stderr).group(1), str(first.pid))

    def test_who_runs_on_a_simulated_node_is_not_the_machines(self):
        # The loader finds this driver as it would find the machine's.
        self.daemon(node=None, LD_LIBRARY_PATH=str(BIN.parent / "sim"))
        self.holding("elsewhere", node=OTHER_NODE)
        self.looks()
        self.assertEqual(self.rows(), {})
        self.assertEqual(self.events("violation", "guard_lost", "ungoverned"), [])
        done = self.ration("run", OTHER_NODE, "--wait", "--limit", "1GiB", "--", "true")
        self.assertEqual((done.returncode, done.stderr.split()[0]), (4, "E1532"), done.stderr)

    def test_a_simulated_daemon_leaves_other_simulated_nodes_alone(self):
        self.daemon()
        self.holding("here")
        self.holding("elsewhere", node=OTHER_NODE)
        self.looks()
        self.assertEqual(list(self.rows()), ["here"])
        for node, name in ((NODE, "here"), (OTHER_NODE, "elsewhere")):
            rows = json.loads(self.ration("ps", node, "-o", "json").stdout)["data"]
            self.assertEqual([row["workload"] for row in rows], [name])


class NoDaemon(Machine):
    def test_simulated_runs_are_kept_apart(self):
        self.holding("first")
        self.holding("second", node=OTHER_NODE)
        apart = "nothing runs under a limit.*\n.*\n\nsimulated: ration ps {}\nWORKLOAD.*\n.*second.*\n\nsimulated: ration ps {}\nWORKLOAD.*\n.*first.*\n$"
        self.assertRegex(self.ration("ps").stdout, apart.format(OTHER_NODE, NODE))
        rows = json.loads(self.ration("ps", "-o", "json").stdout)["data"]
        self.assertEqual({row["workload"]: row["simulation"] for row in rows}, {"first": NODE[6:], "second": OTHER_NODE[6:]})
        shown = self.ration("ps", NODE).stdout
        self.assertIn("first", shown)
        self.assertNotIn("second", shown)
        self.assertIn(f"1 more on simulated GPUs:  ration ps {OTHER_NODE}\n", shown)

    def rows_by_name(self, **env):
        done = self.ration("ps", NODE, "-o", "json", **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {row["workload"]: (row["governed"], row["used_bytes"]) for row in json.loads(done.stdout)["data"]}

    def test_a_folder_is_one_however_it_is_spelled(self):
        (self.folder / "books").mkdir(mode=0o700)
        (self.folder / "link").symlink_to(self.folder)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        plain = {"RATION_SIM_DIR": str(self.folder / "sim"), "RATION_RUNTIME_DIR": str(self.folder / "books")}
        seen = {}
        for number, form in enumerate(("{}", "./{}/", "home/../{}", "link/{}", "{0}/../{0}//", str(self.folder) + "/home/../{}/.")):
            spelled = {name: form.format(pathlib.Path(value).name) for name, value in plain.items()}
            for name, started, asked in ((f"by{number}", spelled, plain), (f"of{number}", plain, spelled)):
                self.holding(name, size="256MiB", **started)
                seen = self.rows_by_name(**asked)
                self.assertEqual(seen.get(name), (True, 320 * 2**20), (form, seen))
        self.assertEqual(set(seen), {f"{kind}{number}" for kind in ("by", "of") for number in range(6)}, "none is ungoverned")

    def test_a_program_in_another_folder_is_on_the_same_node(self):
        (self.folder / "home/node.toml").write_text('[[device]]\nmodel = "T4"\nmemory = "16GiB"\n')
        (self.folder / "books").mkdir(mode=0o700)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        relative = {"RATION_SIM_DIR": "sim", "RATION_RUNTIME_DIR": "books", "RATION_SIM": "home/node.toml"}
        inside = f"cd / && {BIN}/ration ps -o json"
        shutil.copy(pathlib.Path(__file__).parents[3] / "sim/drivers/535.toml", self.folder / "home/driver.toml")
        for node in ("home/node.toml", "T4:16GiB,driver=home/driver.toml", "driver=home/driver.toml,T4:16GiB"):
            for option, chosen in (([], dict(relative, RATION_SIM=node)), ([f"--sim={node}"], relative)):
                with self.subTest(node, option=option):
                    done = self.ration("run", *option, "--name", "mover", "--limit", "1GiB", "--", "sh", "-c", inside, **chosen)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    told = json.loads(done.stdout)
                    self.assertEqual([row["workload"] for row in told["data"]], ["mover"], done.stdout)
                    self.assertEqual(told["devices"][0]["name"], "Tesla T4")

    def test_a_denial_is_explained_for_its_own_node(self):
        self.ration("run", NODE, "--name", "eager", "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB")
        told = self.ration("why", "eager")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertRegex(told.stdout, rf"fix +ration run {re.escape(NODE)} .*--limit")


if __name__ == "__main__":
    unittest.main()
