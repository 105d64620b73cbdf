"""`python -m ration_jupyter.singleuser [OPTIONS of ration run] -- SERVER`: the command that the hub starts for a user.

This command becomes `ration run`, with the limit, name and tenant of the user from the environment.
"""
from __future__ import annotations

import os
import sys
from typing import List, Mapping

from . import program


def command_of(arguments: List[str], environment: Mapping[str, str]) -> List[str]:
    """Returns the command line of `ration run`.

    Raises:
        ValueError: the environment has no limit or no user.
    """
    limit, user = environment.get("RATION_JUPYTER_LIMIT"), environment.get("JUPYTERHUB_USER")
    if not limit or not user:
        raise ValueError("RATION_JUPYTER_LIMIT or JUPYTERHUB_USER is not set, so this user's server would have no limit: "
                         "call ration_jupyter.hub.configure(c) after c.Spawner.environment")
    at = arguments.index("--")
    server = environment.get("JUPYTERHUB_SERVER_NAME", "")
    tenant = environment.get("RATION_JUPYTER_TENANT")
    return [program.find(), "run", "--limit", limit, "--name", program.name_of(f"jupyter-{user}" + (f"-{server}" if server else "")),
            *(["--tenant", tenant] if tenant else []), "--summary", "never", *arguments[:at], "--", *arguments[at + 1:]]


if __name__ == "__main__":
    try:
        command = command_of(sys.argv[1:], os.environ)
        os.execv(command[0], command)
    except (ValueError, OSError) as error:
        sys.exit(f"{error}. This server is not started, because its GPU memory would not be limited.")
