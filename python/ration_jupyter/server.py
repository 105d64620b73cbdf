"""What this server's notebooks hold of the GPU, for the status bar of JupyterLab: an extension of the Jupyter server."""
from __future__ import annotations

import asyncio
import json
import os
import pathlib
import re
import subprocess
from typing import Any, Dict, List, Mapping, Optional

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from . import program


def own_workload(environment: Mapping[str, str]) -> Optional[str]:
    """The workload that this server itself is in, as under JupyterHub; None: in none."""
    book = environment.get("RATION_BOOK")
    return re.sub(r"\.\d+\.book$", "", pathlib.Path(book).name) if book else None


def _ask(*arguments: str) -> Any:
    """The `data` of what `ration` answers.

    Raises:
        RuntimeError: what it said instead.
    """
    done = subprocess.run([program.find(), *arguments, "-o", "json"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"ration {arguments[0]} ended with {done.returncode}")
    return json.loads(done.stdout)["data"]


class Status:
    """Asks `ration ps`, with a daemon and without one, and of each denial that is new `ration why`."""

    def __init__(self) -> None:
        self._denials: Dict[str, Any] = {}  # by workload: how many there were, and what was said of the newest

    def _newest_denial(self, row: Dict[str, Any]) -> Optional[Dict[str, str]]:
        count, name = row["denials"], f"{row['workload']}/{row['run']}"
        if not count:
            return None
        if self._denials.get(name, (0, None))[0] != count:
            told = _ask("why", row["workload"])
            self._denials[name] = (count, {key: told.get(key) or "" for key in ("denial", "text", "not_because", "fix")})
        return self._denials[name][1]

    def of(self, kernels: List[str]) -> List[Dict[str, Any]]:
        """A row of each workload and GPU that is this server's, or one of its `kernels`'."""
        own = own_workload(os.environ)
        result = []
        for row in _ask("ps"):
            labels = dict(label.split("=", 1) for label in (row.get("labels") or "").split(",") if "=" in label)
            kernel = labels.get("kernel") if labels.get("kernel") in kernels else None
            if not row["governed"] or (kernel is None and row["workload"] != own):
                continue
            result.append({"workload": row["workload"], "kernel": kernel, "gpu": row["gpu"], "state": row["state"],
                           "used_bytes": row["used_bytes"], "limit_bytes": row["limit_bytes"],
                           "suspended_bytes": row["suspended_bytes"], "denials": row["denials"],
                           "denial": self._newest_denial(row)})
        return result


class StatusHandler(APIHandler):
    @web.authenticated
    async def get(self) -> None:
        kernels = [kernel["id"] for kernel in self.kernel_manager.list_kernels()]
        try:
            rows = await asyncio.get_running_loop().run_in_executor(None, self.settings["ration_status"].of, kernels)
            self.finish(json.dumps({"workloads": rows}))
        except (RuntimeError, OSError) as error:
            self.finish(json.dumps({"workloads": [], "problem": str(error)}))


def _load_jupyter_server_extension(app: Any) -> None:
    app.web_app.settings["ration_status"] = Status()
    app.web_app.add_handlers(".*$", [(url_path_join(app.web_app.settings["base_url"], "ration/status"), StatusHandler)])
