"""JupyterLab in a real browser, alone and under JupyterHub: what a notebook holds in the status bar, a denial as a notification with its reason."""
import json
import shutil
import subprocess
import sys
import unittest

from browser import BROWSER, Browser
from engine_case import PATIENCE, RATION, SOURCE, free_ports, until
from jupyter_case import CELL, NODE, TOKEN, JupyterCase, Notebook
from jupyter_hub_test import HubCase


class InLab:
    """A notebook that the browser shows and whose cells are run from outside."""

    def install_extension(self):
        """As the wheel does, where every JupyterLab of the test finds it."""
        shutil.copytree(SOURCE / "libration/python/ration_jupyter/labextension", self.folder / "data/labextensions/ration-jupyter")
        config = self.folder / "config/jupyter_server_config.d"
        config.mkdir(parents=True)
        shutil.copy(SOURCE / "libration/python/ration_jupyter/jupyter-config/ration_jupyter.json", config)
        settings = self.folder / "config/lab/user-settings/@jupyterlab/apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')

    def notebook(self, base, kernel):
        content = {"cells": [], "metadata": {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}}, "nbformat": 4,
                   "nbformat_minor": 5}
        self.http("PUT", base + "/api/contents/cats.ipynb", {"type": "notebook", "format": "json", "content": content})
        session = self.http("POST", base + "/api/sessions",
                            {"path": "cats.ipynb", "name": "cats.ipynb", "type": "notebook", "kernel": {"name": kernel}})
        return Notebook(self, base + "/api", session["kernel"]["id"])

    def seen(self, browser, selector, text):
        until(lambda: text in browser.text(selector), f"{text} in {selector}: {browser.text(selector)!r} {browser.text('body')[:600]!r}")

    def follows(self, browser, base, kernel, limit, workload):
        """The page at `base`, while a cell takes memory and is denied more than `limit` GiB."""
        notebook = self.notebook(base, kernel)
        browser.open(f"{base}/lab/tree/cats.ipynb?token={TOKEN}")
        self.seen(browser, ".ration-status", f"GPU 0.0 / {limit}.0 GiB")
        self.assertEqual(notebook.cell(CELL, "print(take(1200))"), "0")
        self.seen(browser, ".ration-status", f"GPU 1.2 / {limit}.0 GiB")
        browser.picture(f"{workload}-holds.png")
        self.assertEqual(notebook.cell("print(take(9000))"), "2")
        self.seen(browser, ".Toastify__toast", "was denied")
        said = browser.text(".Toastify__toast")
        self.assertRegex(said, rf"{workload}\S* was denied 8.79 GiB: it held 1.2\d GiB of its limit {limit}.00 GiB")
        until(lambda: browser.run("document.querySelector('.Toastify__toast').getBoundingClientRect().right <= innerWidth"), "all of it on the page")
        browser.picture(f"{workload}-denied.png")
        browser.run("document.querySelector('.Toastify__toast button.jp-toast-button, .Toastify__toast .jp-Button').click()")
        self.seen(browser, ".ration-denial", "--limit")
        self.assertIn("Not because the GPU was full", browser.text(".ration-denial"))
        browser.picture(f"{workload}-explained.png")
        return self.http("GET", f"{base}/ration/status")["workloads"]


@unittest.skipUnless(BROWSER, "there is no chromium")
class Lab(InLab, JupyterCase):
    governed = False

    def setUp(self):
        super().setUp()
        self.install_extension()
        done = self.module("install", "--limit", "4GiB", "--user", "--", NODE)
        self.assertEqual(done.returncode, 0, done.stderr)
        port, = free_ports(1)
        self.base = f"http://127.0.0.1:{port}"
        (self.folder / "work").mkdir()
        server = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}", "--port-retries=0",
                  f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={self.folder / 'work'}", "--LabApp.extension_manager=readonly",
                  "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
        if self.governed:
            server = [RATION, "run", NODE, "--name", "lab", "--limit", "6GiB", "--", *server]
        self.log = open(self.folder / "lab.log", "w")
        self.addCleanup(self.log.close)
        self.server = subprocess.Popen(server, cwd=self.folder, env=dict(self.environment, RATION_SIM=NODE.split("=", 1)[1]), stdout=self.log,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.addCleanup(self.end)

        def up():
            self.assertIsNone(self.server.poll(), (self.folder / "lab.log").read_text()[-4000:])
            try:
                return self.http("GET", f"{self.base}/api/status")
            except OSError:
                return None
        until(up, "the server answers")

    def end(self):
        """By its interface: a Jupyter server that is just writing a line of its log loses a SIGTERM."""
        if self.server.poll() is None:
            self.http("POST", f"{self.base}/api/shutdown", {})
        self.server.wait(PATIENCE)


class KernelOfRations(Lab):
    def test_the_status_bar_follows_it_and_a_denial_is_told(self):
        row, = self.follows(Browser(self), self.base, "ration-4gib", 4, "cats.ipynb")
        self.assertEqual((row["denials"], row["kernel"] is None), (1, False))


class ServerUnderALimit(Lab):
    governed = True

    def test_the_status_bar_shows_what_all_its_kernels_hold(self):
        row, = self.follows(Browser(self), self.base, "python3", 6, "lab")
        self.assertEqual((row["denials"], row["kernel"] is None), (1, True))


@unittest.skipUnless(BROWSER, "there is no chromium")
class TwoUsersOfAHub(InLab, HubCase):
    """The hub's own pages: sign in, choose a size, work."""
    configure = "sizes=['2GiB', '4GiB', '8GiB']"
    policy = '[[tenant]]\nname = "ada"\nlimit = "6GiB"\n[[tenant]]\nname = "bob"\nlimit = "6GiB"\n'

    def setUp(self):
        self.more = f"""c.Spawner.environment.update(dict(JUPYTER_PATH=data, JUPYTER_CONFIG_PATH=config,
    JUPYTERLAB_SETTINGS_DIR=config + '/lab/user-settings', RATION_SIM={NODE.split('=', 1)[1]!r}))"""
        super().setUp()

    def before_the_hub(self):
        self.install_extension()

    def signed_in(self, user):
        browser = Browser(self, user)
        browser.open(f"http://127.0.0.1:{self.port}/hub/spawn")
        until(lambda: browser.run("document.querySelector('#username_input') !== null"), "the page to sign in")
        browser.run(f"document.querySelector('#username_input').value = '{user}'; document.querySelector('form').submit()")
        until(lambda: browser.run("document.querySelector('#ration-limit') !== null"), f"the page of sizes: {browser.text('body')}")
        self.assertEqual(browser.text("#ration-limit option"), "2 GiB | 4 GiB", "what the tenant has room for")
        return browser

    def test_each_chooses_a_size_and_sees_what_it_holds(self):
        ada, bob = self.signed_in("ada"), self.signed_in("bob")
        self.assertIn("Free on the GPU now: 1", ada.text("form"))
        ada.picture("hub-sizes.png")
        for browser, size in ((ada, "4GiB"), (bob, "2GiB")):
            browser.run(f"document.querySelector('#ration-limit').value = '{size}'; document.querySelector('form [type=submit]').click()")
        for user in ("ada", "bob"):
            until(lambda: self.http("GET", self.api(f"/users/{user}"))["servers"].get("", {}).get("ready"), f"{user}'s server\n{self.said()}")
        for user, browser, limit in (("ada", ada, 4), ("bob", bob, 2)):
            row, = self.follows(browser, f"http://127.0.0.1:{self.port}/user/{user}", "python3", limit, f"jupyter-{user}")
            self.assertEqual((row["workload"], row["denials"], row["limit_bytes"] >> 30), (f"jupyter-{user}", 1, limit))


if __name__ == "__main__":
    unittest.main()
