#!/usr/bin/env python3
"""JupyterLab in a real browser: what a notebook holds in the status bar, a denial as a notification with its reason."""
import base64
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from jupyter_case import CELL, NODE, PATIENCE, RATION, SOURCE, JupyterCase, main, until  # noqa: E402
from jupyter_hub_test import TOKEN, Notebook  # noqa: E402

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


class Browser:
    """Chromium's own protocol, as far as it is needed here."""

    def __init__(self, case):
        import websocket
        profile = case.folder / "browser"
        self.process = subprocess.Popen([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,700", "--remote-debugging-port=0",
                                         "--remote-allow-origins=*", f"--user-data-dir={profile}", "about:blank"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        case.addCleanup(lambda: (self.process.terminate(), self.process.wait()))
        port = until(lambda: (profile / "DevToolsActivePort").exists() and (profile / "DevToolsActivePort").read_text().splitlines(), "the browser")[0]
        pages = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json"))
        self.socket = websocket.create_connection(next(page for page in pages if page["type"] == "page")["webSocketDebuggerUrl"], timeout=PATIENCE)
        case.addCleanup(self.socket.close)
        self.number = 0

    def ask(self, method, **parameters):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == self.number:
                return answer.get("result", answer)

    def text(self, selector):
        """Of everything that matches, as it is seen."""
        script = f"[...document.querySelectorAll({json.dumps(selector)})].map((each) => each.innerText).join(' | ')"
        return self.ask("Runtime.evaluate", expression=script)["result"].get("value", "")

    def picture(self, name):
        folder = os.environ.get("RATION_TEST_PICTURES")
        if folder:
            pathlib.Path(folder, name).write_bytes(base64.b64decode(self.ask("Page.captureScreenshot")["data"]))


@unittest.skipUnless(BROWSER, "there is no chromium")
class Lab(JupyterCase):
    governed = False

    def setUp(self):
        super().setUp()
        shutil.copytree(SOURCE / "python/ration_jupyter/labextension", self.folder / "data/labextensions/ration-jupyter")
        config = self.folder / "config/jupyter_server_config.d"
        config.mkdir(parents=True)
        shutil.copy(SOURCE / "python/ration_jupyter/jupyter-config/ration_jupyter.json", config)
        done = self.module("install", "--limit", "4GiB", "--user", "--", NODE)
        self.assertEqual(done.returncode, 0, done.stderr)
        settings = self.folder / "config/lab/user-settings/@jupyterlab/apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (self.folder / "work").mkdir()
        server = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={self.port}", "--port-retries=0",
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
                return self.http("GET", f"http://127.0.0.1:{self.port}/api/status")
            except OSError:
                return None
        until(up, "the server answers")

    def end(self):
        """By its interface: a Jupyter server that is just writing a line of its log loses a SIGTERM."""
        if self.server.poll() is None:
            self.http("POST", f"http://127.0.0.1:{self.port}/api/shutdown", {})
        self.server.wait(PATIENCE)

    def http(self, method, url, body=None):
        request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"token {TOKEN}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read() or b"null")

    def notebook(self, kernel):
        """A notebook with a session, and its cells from outside; the browser shows the same one."""
        base = f"http://127.0.0.1:{self.port}/api"
        content = {"cells": [], "metadata": {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}}, "nbformat": 4,
                   "nbformat_minor": 5}
        self.http("PUT", base + "/contents/cats.ipynb", {"type": "notebook", "format": "json", "content": content})
        session = self.http("POST", base + "/sessions", {"path": "cats.ipynb", "name": "cats.ipynb", "type": "notebook", "kernel": {"name": kernel}})
        return Notebook(self, base, session["kernel"]["id"])

    def seen(self, browser, selector, text):
        until(lambda: text in browser.text(selector), f"{text} in {selector}: {browser.text(selector)!r} {browser.text('body')[:600]!r}")

    def follows(self, kernel, limit, workload):
        notebook = self.notebook(kernel)
        browser = Browser(self)
        browser.ask("Page.navigate", url=f"http://127.0.0.1:{self.port}/lab/tree/cats.ipynb?token={TOKEN}")
        self.seen(browser, ".ration-status", f"GPU 0.0 / {limit} GiB")
        self.assertEqual(notebook.cell(CELL, "print(take(1200))"), "0")
        self.seen(browser, ".ration-status", f"GPU 1.2 / {limit} GiB")
        browser.picture(f"{kernel}-holds.png")
        self.assertEqual(notebook.cell("print(take(9000))"), "2")
        self.seen(browser, ".Toastify__toast", "was denied")
        said = browser.text(".Toastify__toast")
        self.assertRegex(said, rf"{workload}\S* was denied 8.79 GiB: it held 1.2\d GiB of its limit {limit[0]}.00 GiB")
        browser.picture(f"{kernel}-denied.png")
        browser.ask("Runtime.evaluate", expression="document.querySelector('.Toastify__toast button.jp-toast-button, .Toastify__toast .jp-Button').click()")
        self.seen(browser, ".ration-denial", "--limit")
        self.assertIn("Not because the GPU was full", browser.text(".ration-denial"))
        browser.picture(f"{kernel}-explained.png")
        status = self.http("GET", f"http://127.0.0.1:{self.port}/ration/status")["workloads"]
        self.assertEqual([(row["denials"], row["kernel"] is None) for row in status], [(1, self.governed)])


class KernelOfRations(Lab):
    def test_the_status_bar_follows_it_and_a_denial_is_told(self):
        self.follows("ration-4gib", "4.0", "cats.ipynb")


class ServerUnderALimit(Lab):
    governed = True

    def test_the_status_bar_shows_what_all_its_kernels_hold(self):
        self.follows("python3", "6.0", "lab")


if __name__ == "__main__":
    main()
