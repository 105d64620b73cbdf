"""JupyterHub: each user's server under a limit; if several sizes are offered, the user chooses.

    # jupyterhub_config.py
    from ration_jupyter import hub
    hub.configure(c, sizes=['2GiB', '4GiB', '8GiB'])
"""
from __future__ import annotations

import asyncio
import html
import inspect
import os
import re
import sys
from typing import Any, Dict, List, Optional, Sequence

from tornado.web import HTTPError

from . import daemon, kernels, program

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def _bytes(size: str) -> Optional[int]:
    """Returns the bytes of a size, or None for a share such as 50 %."""
    found = re.fullmatch(r"([0-9.]+)([KMGT]i?B)", size)
    return int(float(found.group(1)) * _UNITS[found.group(2)]) if found else None


def _size(number: int) -> str:
    """Returns the size, rounded down to MiB, in the form that `ration run --limit` reads."""
    mib = number >> 20
    return f"{mib >> 10}GiB" if mib % 1024 == 0 else f"{mib}MiB"


def _gib(number: int) -> str:
    return f"{number / (1 << 30):.1f} GiB"


def _rejected(code: int, text: str) -> HTTPError:
    error = HTTPError(code, text.replace("%", "%%"))
    error.jupyterhub_message = text  # type: ignore[attr-defined]  (the text on the hub's page)
    return error


class Servers:
    """The settings of `configure`, and the functions that the hub calls for each server."""

    def __init__(self, sizes: Sequence[str], tenant: Optional[str], options: Sequence[str], command: Sequence[str]) -> None:
        self.sizes, self.tenant, self.options, self.command = list(sizes), tenant, list(options), list(command)

    def tenant_of(self, spawner: Any) -> str:
        return program.name_of(self.tenant.replace("{username}", spawner.user.name)) if self.tenant else ""

    def offered(self, spawner: Any) -> List[str]:
        """Returns the configured sizes that fit into the tenant's limit, which the daemon reports; without configured
        sizes, a quarter, a half and all of that limit.

        Raises:
            HTTPError: no size is configured, and the daemon knows no limit of this tenant.
        """
        tenant = self.tenant_of(spawner)
        rows = (daemon.get(f"/api/v1/tenants/{tenant}") or []) if tenant else []
        limits = [account["limit_bytes"] for row in rows for account in row["accounts"] if account["limit_bytes"]]
        if self.sizes:
            return [size for size in self.sizes if not limits or (_bytes(size) or 0) <= max(limits)] or self.sizes[:1]
        if not limits:
            raise _rejected(503, f"This server does not start, because the GPU memory of {tenant or 'this server'} is not configured: write a limit of the "
                                 "tenant into ration's configuration and start rationd, or set limit or sizes in jupyterhub_config.py")
        return [_size(max(limits) // part) for part in (4, 2, 1)]

    def limit_of(self, spawner: Any) -> str:
        """Returns the size that the user chose in the form or through the hub's interface.

        Raises:
            HTTPError: the size is not offered.
        """
        offered = self.offered(spawner)
        chosen = (spawner.user_options or {}).get("limit", offered[0])
        if chosen not in offered:
            raise _rejected(400, f"{str(chosen)[:40]} of GPU memory is not offered here: {', '.join(offered)}")
        return chosen

    def form(self, spawner: Any) -> str:
        devices = daemon.get("/api/v1/devices") or []
        free = [device["free_bytes"] for device in devices if device.get("free_bytes") is not None]
        now = f"<small class='form-text'>Free on the GPU now: {_gib(max(free))}</small>" if free else ""
        choices = "".join(f"<option value='{html.escape(size)}'>{html.escape(program.text_of(size))}</option>"
                          for size in self.offered(spawner))
        return f"<label for='ration-limit'>GPU memory</label><select id='ration-limit' name='limit' class='form-control'>{choices}</select>{now}"

    @staticmethod
    def options_from_form(data: Dict[str, List[str]], spawner: Any = None) -> Dict[str, str]:
        return {"limit": data["limit"][0]} if data.get("limit") else {}

    def hook(self, former: Any, check: bool) -> Any:
        async def pre_spawn(spawner: Any) -> None:
            """Raises an error that the user sees if the limit cannot be enforced; the server itself would end without a message."""
            if former is not None:
                done = former(spawner)
                if inspect.isawaitable(done):
                    await done
            if spawner.cmd[:len(self.command)] != self.command:
                raise _rejected(503, "This server does not start, because its GPU memory would not be limited: c.Spawner.cmd was set after ration_jupyter's "
                                     "hub.configure(c), to which you can pass the command of the server as command=[...]")
            if not check:
                return
            command = [program.find(), "run", "--limit", self.limit_of(spawner), *self.options, "--", sys.executable]
            try:
                await asyncio.get_running_loop().run_in_executor(None, kernels.check, command)
            except RuntimeError as error:
                raise _rejected(503, f"This server does not start, because its GPU memory cannot be limited. {error}") from error
        return pre_spawn


def configure(c: Any, limit: Optional[str] = None, sizes: Sequence[str] = (), tenant: Optional[str] = "{username}",
              options: Sequence[str] = (), command: Sequence[str] = ("jupyterhub-singleuser",), python: str = sys.executable,
              check: bool = True) -> None:
    """Puts every user's server under `ration run`.

    Args:
        c: the hub's configuration.
        limit: the limit of each user: `4GiB`, `50%`.
        sizes: instead of one limit, the sizes from which a user chooses; the first size is the default. Sizes
            above the tenant's limit in the daemon's configuration are not offered. Without limit and sizes, a quarter, a
            half and all of the tenant's limit are offered.
        tenant: the tenant that is charged; None: the tenant that ration's configuration chooses.
        options: further options of `ration run`, such as `--on-deny wait:60s`.
        command: the command of the server.
        python: the interpreter that starts the server, and that has this package; for a server in a container, the
            container's interpreter.
        check: True to check with `ration run` on this machine before each start; False if servers run elsewhere.

    Raises:
        ValueError: both a limit and sizes are given, or neither a limit nor sizes nor a tenant.
    """
    if limit and sizes or not (limit or sizes or tenant):
        raise ValueError("give either a limit or sizes, or a tenant whose limit the daemon knows")
    own = [python, "-m", "ration_jupyter.singleuser"]
    servers = Servers([limit] if limit else sizes, tenant, options, own)
    c.Spawner.cmd = [*own, *options, "--", *command]
    # The limit travels in the environment and not in a hook, so that no server starts if a later line of the
    # configuration overwrites the environment (`c.Spawner.environment = ...`).
    c.Spawner.environment.update({**{name: value for name, value in os.environ.items() if name.startswith("RATION_")},
                                  "RATION_JUPYTER_LIMIT": servers.limit_of, "RATION_JUPYTER_TENANT": servers.tenant_of})
    c.LocalProcessSpawner.interrupt_timeout = 1  # `ration run` ignores SIGINT, so the SIGTERM that follows ends the server
    if not limit:
        c.Spawner.options_form = servers.form
        c.Spawner.options_from_form = servers.options_from_form
    former = c.Spawner.get("pre_spawn_hook")
    c.Spawner.pre_spawn_hook = servers.hook(former if callable(former) else None, check)
