"""What the tests that talk to a rationd have in common."""
import http.client
import os
import pathlib
import re
import shutil
import socket
import tempfile

from waiting import PATIENCE, until  # noqa: F401

BIN = pathlib.Path(os.environ["BUILD_BIN"])
SOURCE = pathlib.Path(os.environ["SOURCE"])
MIB, GIB = 1 << 20, 1 << 30


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def own_folder(case):
    """A new folder that is removed when the test case ends and the last process that still writes there has left it."""
    folder = pathlib.Path(tempfile.mkdtemp())

    def removed():
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    case.addCleanup(until, removed, f"{folder} removed")
    return folder


def of_any_node(text):
    """Printed commands without the options that say which node they are about."""
    return re.sub(r" --(?:sim|socket)=(?:'[^']*'|\S+)", "", text)


def environment_in(folder, **more):
    """This process's, without what would lead a program elsewhere; every file of ration's is in `folder`."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "CUDA_", "TF_", "XLA_"))}
    folder = pathlib.Path(folder)
    return dict(own, RATION_SIM_DIR=str(folder), RATION_RUNTIME_DIR=str(folder), HOME=str(folder), LC_ALL="C.UTF-8",
                RATION_CONFIG=str(folder / "ration.toml"), **more)
