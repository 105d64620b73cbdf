"""The GPU memory of workloads and the reasons of their denials, for the status bar and `%ration`."""
from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from typing import Any, Dict, List, Mapping, Optional, Sequence

from . import program


def own_workload(environment: Mapping[str, str]) -> Optional[str]:
    """Returns the workload of this server itself, for example under JupyterHub; None if the server is in no workload."""
    book = environment.get("RATION_BOOK")
    return re.sub(r"\.\d+\.book$", "", pathlib.Path(book).name) if book else None


def _ask(*arguments: str) -> Any:
    """Returns the `data` of the answer of `ration`.

    Raises:
        RuntimeError: `ration` failed; the text is that of its error.
    """
    done = subprocess.run([program.find(), *arguments, "-o", "json"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"ration {arguments[0]} ended with {done.returncode}")
    return json.loads(done.stdout)["data"]


class Status:
    """The rows of `ration ps`, which needs no daemon, each with the reason of its newest denial by `ration why`."""

    def __init__(self) -> None:
        self._denials: Dict[str, Any] = {}  # by workload: the number of denials, and the reason of the newest

    def _newest_denial(self, row: Dict[str, Any]) -> Optional[Dict[str, str]]:
        count, name = row["denials"], f"{row['workload']}/{row['run']}"
        if not count:
            return None
        if self._denials.get(name, (0, None))[0] != count:
            told = _ask("why", row["workload"])
            self._denials[name] = (count, {key: told.get(key) or "" for key in ("denial", "text", "not_because", "fix")})
        return self._denials[name][1]

    def of(self, kernels: Sequence[str] = ()) -> List[Dict[str, Any]]:
        """Returns a row for each GPU of this server's own workload and of the workloads of its `kernels`."""
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


def text(row: Mapping[str, Any]) -> str:
    """Returns `GPU 0  1.2 / 4.0 GiB` and the newest denial, as JupyterLab shows them."""
    line = f"GPU {row['gpu']}  {row['used_bytes'] / 2**30:.1f} / {row['limit_bytes'] / 2**30:.1f} GiB  {row['workload']}"
    if row["denial"]:
        line += f"\n  denied {row['denials']} times, last: {row['denial']['text']}\n  {row['denial']['fix']}"
    return line
