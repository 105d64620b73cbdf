"""JupyterHub: servers started over its interface, each held to its limit; more notebooks than memory."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

from engine_case import BUILD, GIB, PATIENCE, SOURCE, free_ports, until
from jupyter_case import CELL, NODE, TOKEN, JupyterCase, Notebook

PROXY = "configurable-http-proxy@5.3.0"


def proxy():
    """The proxy from npm; None without a network."""
    folder = SOURCE / "build/engines/npm"
    program = pathlib.Path(os.environ.get("RATION_TEST_PROXY", folder / "node_modules/.bin/configurable-http-proxy"))
    if not program.exists():
        own = folder.with_name(f"npm-{os.getpid()}")  # another test file may be at it, too
        own.mkdir(parents=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", own, PROXY], capture_output=True, timeout=300)
        try:
            own.rename(folder)
        except OSError:
            shutil.rmtree(own)
    return program if program.exists() else None


class HubCase(JupyterCase):
    configure = "limit='4GiB'"
    more = ""
    policy = ""
    run_options = [NODE]

    def setUp(self):
        super().setUp()
        command = proxy()
        if command is None:
            self.skipTest("configurable-http-proxy cannot be had from npm")
        self.before_the_hub()
        self.port, hub, api = free_ports(3)
        (self.folder / "hub.py").write_text(f"""
from ration_jupyter import hub
c.JupyterHub.bind_url = 'http://127.0.0.1:{self.port}'
c.JupyterHub.hub_port = {hub}
c.ConfigurableHTTPProxy.api_url = 'http://127.0.0.1:{api}'
c.ConfigurableHTTPProxy.command = [{str(command)!r}]
c.JupyterHub.spawner_class = 'simple'
c.SimpleLocalProcessSpawner.home_dir_template = {str(self.folder)!r} + '/home/{{username}}'
c.JupyterHub.authenticator_class = 'dummy'
c.Authenticator.allow_all = True
c.JupyterHub.services = [dict(name='test', api_token={TOKEN!r})]
c.JupyterHub.load_roles = [dict(name='test', services=['test'], scopes=['admin:users', 'admin:servers', 'access:servers'])]
c.Spawner.args = ['--allow-root']
c.Spawner.env_keep = ['PATH', 'PYTHONPATH', 'LC_ALL']
c.Spawner.start_timeout = c.Spawner.http_timeout = {PATIENCE}
hub.configure(c, {self.configure}, options={self.run_options!r})
data, config = {str(self.folder / 'data')!r}, {str(self.folder / 'config')!r}
{self.more}
""")
        if self.policy:
            self.daemon()
        self.log = open(self.folder / "hub.log", "w+")
        self.addCleanup(self.log.close)
        self.hub = subprocess.Popen([sys.executable, "-m", "jupyterhub", "-f", str(self.folder / "hub.py")], cwd=self.folder,
                                    env=self.environment, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.addCleanup(lambda: (self.hub.send_signal(signal.SIGTERM), self.hub.wait()))

        def up():
            self.assertIsNone(self.hub.poll(), self.said())
            try:
                return self.http("GET", self.api("/"))
            except OSError:
                return None
        until(up, "the hub answers")

    def before_the_hub(self):
        pass

    def daemon(self):
        (self.folder / "ration.toml").write_text('[daemon]\nsample = "100ms"\nsample_idle = "100ms"\n' + self.policy)
        daemon = subprocess.Popen([BUILD / "bin/rationd", NODE, "--state", self.folder / "state", "--listen", "127.0.0.1:0"],
                                  env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
        self.addCleanup(lambda: (daemon.terminate(), daemon.communicate()))
        self.assertIn("ration", daemon.stdout.readline())

    def said(self):
        return (self.folder / "hub.log").read_text()[-6000:]

    def api(self, path):
        return f"http://127.0.0.1:{self.port}/hub/api{path}"

    def user(self, name):
        try:
            self.http("POST", self.api(f"/users/{name}"))
        except urllib.error.HTTPError as error:
            self.assertEqual(error.code, 409, "it is there")

    def start_server(self, user, **options):
        self.user(user)
        self.http("POST", self.api(f"/users/{user}/server"), options)
        until(lambda: self.http("GET", self.api(f"/users/{user}"))["servers"].get("", {}).get("ready"), f"{user}'s server\n{self.said()}")

    def failure(self, user, **options):
        """What the hub tells this user of a server that does not start."""
        self.user(user)
        try:
            self.http("POST", self.api(f"/users/{user}/server"), options)
        except urllib.error.HTTPError as error:
            return error.read().decode()
        self.fail("it was started")


class TwoUsers(HubCase):
    configure = "sizes=['2GiB', '4GiB']"

    def test_each_is_held_to_the_size_that_was_chosen(self):
        self.start_server("ada", limit="4GiB")
        self.start_server("bob@example.org")
        rows = self.rows()
        self.assertEqual({(re.sub("-[0-9a-f]{6}$", "-ID", name), re.sub("-[0-9a-f]{6}$", "-ID", row["tenant"]), row["limit_bytes"] // GIB)
                          for name, row in rows.items()}, {("jupyter-ada", "ada", 4), ("jupyter-bob-example.org-ID", "bob-example.org-ID", 2)})
        ada, bob = Notebook.of_user(self, "ada"), Notebook.of_user(self, "bob@example.org")
        self.assertEqual(ada.cell(CELL, "print(total() >> 30, take(3000), take(3000))"), "4 0 2")
        self.assertEqual(bob.cell(CELL, "print(total() >> 30, take(1000), take(3000))"), "2 0 2")
        second = Notebook.of_user(self, "ada")
        self.assertEqual(second.cell(CELL, "print(take(2000))"), "2", "the kernels of one user share the user's limit")
        for user in ("ada", "bob@example.org"):
            self.http("DELETE", self.api(f"/users/{user}/server"))
        until(lambda: self.rows() == {}, "nothing is left")

    def test_what_is_not_offered_is_not_had(self):
        for wish in ("16GiB", "", {"much": 1}):
            self.assertIn("is not offered here: 2GiB, 4GiB", self.failure("eve", limit=wish))
        self.assertEqual(self.rows(), {})


class CannotBeHeld(HubCase):
    more = "c.Spawner.environment = {}\nc.Spawner.start_timeout = 20"

    def test_a_server_whose_limit_was_lost_does_not_start(self):
        self.failure("ada")
        self.assertIn("RATION_JUPYTER_LIMIT and JUPYTERHUB_USER define the limit", self.said())
        self.assertEqual(self.rows(), {})


class CommandOfAnother(HubCase):
    configure = "limit='4GiB', check=False"
    more = "c.Spawner.cmd = ['jupyterhub-singleuser']"

    def test_a_server_that_would_not_be_limited_does_not_start(self):
        self.assertIn("c.Spawner.cmd was set after", self.failure("ada"))


class CannotBeHad(HubCase):
    run_options = [NODE, "--guarantee", "20GiB"]

    def test_the_user_reads_why(self):
        self.assertIn("This server does not start, because its GPU memory cannot be limited. E1", self.failure("ada"))
        self.assertEqual(self.rows(), {})


class TenantsOfTheDaemon(HubCase):
    configure = "sizes=['2GiB', '4GiB', '8GiB'], tenant='nlp'"
    policy = '[[tenant]]\nname = "nlp"\nmatch = { users = ["*"] }\nlimit = "4GiB"\n'

    def test_the_form_offers_what_the_tenant_may_have(self):
        self.assertIn("is not offered here: 2GiB, 4GiB", self.failure("ada", limit="8GiB"))
        self.start_server("ada", limit="4GiB")
        self.assertEqual(self.rows()["jupyter-ada"]["tenant"], "nlp")


class SizesOfTheDaemon(HubCase):
    configure = "tenant='nlp'"
    policy = '[[tenant]]\nname = "nlp"\nlimit = "6GiB"\n'

    def test_the_tenants_limit_says_what_is_offered(self):
        self.assertIn("is not offered here: 1536MiB, 3GiB, 6GiB", self.failure("ada", limit="8GiB"))
        self.start_server("ada", limit="3GiB")
        self.assertEqual((self.rows()["jupyter-ada"]["tenant"], self.rows()["jupyter-ada"]["limit_bytes"]), ("nlp", 3 * GIB))


class NoSizes(HubCase):
    configure = "tenant='nlp'"

    def test_a_server_of_which_nobody_says_how_much_does_not_start(self):
        self.assertIn("the GPU memory of nlp is not configured", self.failure("ada"))


class UnderLoad(HubCase):
    """Three users who all take what they can get, on a GPU of 16 GiB that two of them could fill alone."""
    configure = "limit='12GiB'"
    policy = '[[tenant]]\nname = "ada"\nguarantee = "8GiB"\n[[tenant]]\nname = "bob"\nguarantee = "4GiB"\nlimit = "6GiB"\n[[tenant]]\nname = "eve"\nlimit = "2GiB"\n'
    shares = {"ada": (8, 12), "bob": (4, 6), "eve": (0, 2)}  # GiB that are guaranteed, and the most there may be

    def test_each_has_what_the_tenants_configuration_says(self):
        for user in self.shares:
            self.start_server(user)
        notebooks = {user: Notebook.of_user(self, user) for user in self.shares}
        for notebook in notebooks.values():
            notebook.cell(CELL, "def fill():", "    taken = 0", "    while take(128) == 0: taken += 128", "    return taken + 64  # the context")
        for order in (["ada", "bob", "eve"], ["eve", "bob", "ada"]):
            with self.subTest(order), concurrent.futures.ThreadPoolExecutor() as together:
                filled = [together.submit(notebooks[user].cell, "print(fill())") for user in order]
                held = {user: int(each.result()) / 1024 for user, each in zip(order, filled)}
                for user, (least, most) in self.shares.items():
                    self.assertTrue(least - 0.125 <= held[user] <= most, f"{user}: {held}")
                self.assertTrue(15.5 <= sum(held.values()) <= 16, f"nothing lies idle: {held}")
            for notebook in notebooks.values():
                notebook.cell("give_back()")


class MoreNotebooksThanMemory(HubCase):
    """Twelve notebooks of 4 GiB on a GPU of 16 GiB, one of them busy at a time."""
    notebooks, rounds = 12, 3
    run_options = [NODE, "--on-deny", "wait:60s"]
    policy = '[[policy]]\nmatch = { users = ["*"] }\nidle = { after = "1s", action = "suspend" }\n'

    def events(self, kind):
        done = self.ration("events", NODE, "--type", kind, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]

    def test_all_finish_and_none_is_refused(self):
        users = [f"user{number}" for number in range(self.notebooks)]
        problems = []

        def begin(user):
            try:
                self.start_server(user)
            except Exception as error:  # noqa: BLE001  (told by the assertion below)
                problems.append((user, error))
        threads = [threading.Thread(target=begin, args=(user,)) for user in users]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        notebooks = [Notebook.of_user(self, user) for user in users]
        took = {"first": [], "again": []}
        for turn in range(self.rounds):
            for number, notebook in enumerate(notebooks):
                started = time.monotonic()
                cell = (CELL, "print(take(3000))") if turn == 0 else ("print(take(256))",)
                self.assertEqual(notebook.cell(*cell), "0", f"notebook {number}, round {turn}")
                took["first" if turn == 0 else "again"].append(time.monotonic() - started)
        denials = sum(row["denials"] for row in self.rows().values())
        self.assertEqual(denials, 0)
        self.assertGreaterEqual(len([row for row in self.rows().values() if row["suspended_bytes"]]), self.notebooks - 5)
        for name, times in took.items():
            times.sort()
            print(f"{name}: {len(times)} switches, median {times[len(times) // 2]:.2f} s, longest {times[-1]:.2f} s", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
