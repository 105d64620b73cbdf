"""What the tests of Jupyter share: folders of their own, ration installed for the environment's Python, and its command."""
import json
import os
import pathlib
import subprocess
import sys
import unittest
import urllib.request
import uuid

from engine_case import LIBRARY, PATIENCE, RATION, SOURCE, environment_in, own_folder

NODE = "--sim=T4:16GiB:context=64MiB"
TOKEN = "a-token-of-the-test"

# Cells: the driver as any program finds it. `take` answers a request in MiB with the driver's code: 0, or 2 for no memory.
CELL = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
def total():
    free, all_ = ctypes.c_size_t(), ctypes.c_size_t()
    assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(all_)) == 0
    return all_.value
held = []
def take(mib):
    block = ctypes.c_uint64()
    status = driver.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(mib << 20))
    held.extend([block] if status == 0 else [])
    return status
def give_back():
    while held: assert driver.cuMemFree_v2(held.pop()) == 0
context = ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
"""


class Notebook:
    """A kernel through a server's own interface."""

    def __init__(self, case, base, kernel):
        import websocket
        self.socket = websocket.create_connection(base.replace("http", "ws") + f"/kernels/{kernel}/channels",
                                                  header=[f"Authorization: token {TOKEN}"], timeout=PATIENCE)
        case.addCleanup(self.socket.close)

    @classmethod
    def of_user(cls, case, user):
        """A new kernel in a user's server, through the hub's proxy."""
        base = f"http://127.0.0.1:{case.port}/user/{user}/api"
        return cls(case, base, case.http("POST", base + "/kernels", {"name": "python3"})["id"])

    def cell(self, *lines):
        request = uuid.uuid4().hex
        self.socket.send(json.dumps({
            "channel": "shell", "parent_header": {}, "metadata": {}, "buffers": [],
            "header": {"msg_id": request, "msg_type": "execute_request", "username": "", "session": request, "version": "5.3", "date": ""},
            "content": {"code": "\n".join(lines), "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}}))
        told = []
        while True:
            message = json.loads(self.socket.recv())
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            told.append(content.get("text") or content.get("evalue") or "")
            if content.get("execution_state") == "idle":
                return "".join(told).strip()


class JupyterCase(unittest.TestCase):
    def setUp(self):
        self.folder = own_folder(self)
        own = {key: value for key, value in environment_in(self.folder).items() if not key.startswith(("LD_", "PYTHON", "JUPYTER", "JPY_"))}
        self.environment = dict(
            own, RATION_PROGRAM=RATION, RATION_LIBRARY=LIBRARY, PYTHONPATH=f"{self.installed()}:{SOURCE / 'libration/python'}",
            PYTHONDONTWRITEBYTECODE="1", PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            **{f"JUPYTER_{kind}_DIR": str(self.folder / kind.lower()) for kind in ("DATA", "RUNTIME", "CONFIG")},
            IPYTHONDIR=str(self.folder / "ipython"))
        (self.folder / "ration.toml").write_text("")

    def installed(self):
        """A folder that says of ration's package what installing it would say."""
        import tomllib
        points = tomllib.loads((SOURCE / "libration/python/pyproject.toml").read_text())["project"]["entry-points"]
        told = self.folder / "site/ration-0.dist-info"
        told.mkdir(parents=True)
        (told / "METADATA").write_text("Metadata-Version: 2.1\nName: ration\nVersion: 0\n")
        (told / "entry_points.txt").write_text("".join(
            f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in named.items()) for group, named in points.items()))
        return told.parent

    def ration(self, *arguments):
        return subprocess.run([RATION, *arguments], env=self.environment, capture_output=True, text=True, timeout=PATIENCE)

    def module(self, *arguments, **environment):
        return subprocess.run([sys.executable, "-m", "ration_jupyter", *arguments], env={**self.environment, **environment},
                              capture_output=True, text=True, timeout=PATIENCE)

    def http(self, method, url, body=None):
        request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"token {TOKEN}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read() or b"null")

    def rows(self):
        done = self.ration("ps", NODE, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {row["workload"]: row for row in json.loads(done.stdout)["data"] if row["governed"]}
