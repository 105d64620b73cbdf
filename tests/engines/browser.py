"""A real browser, by its own protocol, as far as the tests of engines need it."""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import urllib.request

from engine_case import PATIENCE, until

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


class Browser:
    def __init__(self, case, name="browser"):
        import websocket
        profile = case.folder / name
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

    def open(self, url):
        self.ask("Page.navigate", url=url)

    def run(self, script):
        return self.ask("Runtime.evaluate", expression=script)["result"].get("value")

    def text(self, selector):
        """Of everything that matches, as it is seen."""
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((each) => each.innerText).join(' | ')") or ""

    def picture(self, name):
        folder = os.environ.get("RATION_TEST_PICTURES")
        if folder:
            pathlib.Path(folder, name).write_bytes(base64.b64decode(self.ask("Page.captureScreenshot")["data"]))
