"""Queries rationd on this machine over its socket."""
from __future__ import annotations

import http.client
import json
import os
import socket
from typing import Any, Optional


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=5)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def socket_path() -> Optional[str]:
    """Returns the socket of the daemon in the runtime folder, or None."""
    given = os.environ.get("RATION_RUNTIME_DIR")
    folders = [given] if given else ["/run/ration", os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/nonexistent", "ration"),
                                     f"/tmp/ration-{os.getuid()}", "/.ration"]
    return next((path for path in (os.path.join(folder, "ration.sock") for folder in folders) if os.path.exists(path)), None)


def get(path: str) -> Any:
    """Returns the `data` of the answer, or None if no daemon answers or the daemon has nothing at that path."""
    where = socket_path()
    if where is None:
        return None
    connection = _Connection(where)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return json.loads(answer.read())["data"] if answer.status == 200 else None
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        return None
    finally:
        connection.close()
