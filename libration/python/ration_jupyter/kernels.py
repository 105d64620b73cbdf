"""Kernels under a limit: kernelspecs whose command is `ration run`."""
from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional, Sequence

from . import program

PROVISIONER = "ration"


def has_provisioner() -> bool:
    """Returns True if Jupyter finds ration's provisioner, which names the workload after the notebook and shows why a kernel
    does not start."""
    from jupyter_client.provisioning import KernelProvisionerFactory
    return PROVISIONER in KernelProvisionerFactory.instance().get_provisioner_entries()


def command_of(limit: str, python: str, options: Sequence[str] = ()) -> List[str]:
    """Returns the kernel's command line. The command line contains the path of `ration`, so that no kernel starts once
    `ration` is removed."""
    return [program.find(), "run", "--limit", limit, *options, "--", python, "-m", "ipykernel_launcher", "-f",
            "{connection_file}"]


def spec_of(limit: str, python: str, options: Sequence[str] = (), display_name: Optional[str] = None) -> Dict[str, Any]:
    metadata: Dict[str, Any] = {"debugger": True, "ration": {"limit": limit}}
    if has_provisioner():
        metadata["kernel_provisioner"] = {"provisioner_name": PROVISIONER}
    return {"argv": command_of(limit, python, options),
            "display_name": display_name or f"Python 3 · {program.text_of(limit)} GPU", "language": "python",
            "metadata": metadata}


def check(command: Sequence[str]) -> None:
    """Checks with `ration run --dry-run` that the command would start under its limit.

    Raises:
        RuntimeError: with the answer of `ration run`: the limit cannot be enforced, is not a size, or exceeds the
            device.
    """
    at = list(command).index("--")
    done = subprocess.run([*command[:at], "--dry-run", "-o", "json", *command[at:]], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"{command[0]} ended with {done.returncode}")
    told = json.loads(done.stdout)["data"]
    if told["escape"] or told["enforced_by"] == "nothing":
        raise RuntimeError(f"E1404 ration: the limit cannot be enforced for this program: {told['escape']}")


def install(limit: str, name: Optional[str] = None, display_name: Optional[str] = None, user: bool = False,
            prefix: Optional[str] = None, python: str = sys.executable, options: Sequence[str] = ()) -> str:
    """Writes the kernelspec and returns its folder.

    Args:
        limit: the limit on each GPU: `4GiB`, `50%`.
        name: the name of the kernelspec's folder; None: `ration-4gib`.
        display_name: the name in the launcher; None: `Python 3 · 4 GiB GPU`.
        user: True to install for this user. Without `user` and `prefix`, installs for all users.
        prefix: the folder of the environment to install into.
        python: the interpreter, which has ipykernel.
        options: further options of `ration run`, such as `--on-deny wait:30s`.

    Raises:
        RuntimeError: `ration run` would not start the kernel, or the interpreter has no ipykernel.
    """
    from jupyter_client.kernelspec import KernelSpecManager
    check(command_of(limit, python, options))
    if subprocess.run([python, "-c", "import ipykernel"], capture_output=True).returncode != 0:
        raise RuntimeError(f"{python} has no ipykernel: {python} -m pip install ipykernel")
    name = name or "ration-" + re.sub(r"[^a-z0-9]+", "-", limit.lower().replace("%", "-percent")).strip("-")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        spec = spec_of(limit, python, options, display_name)
        pathlib.Path(folder, "kernel.json").write_text(json.dumps(spec, ensure_ascii=False, indent=1) + "\n", "utf-8")
        return KernelSpecManager().install_kernel_spec(folder, name, user=user, prefix=prefix)


def installed() -> Dict[str, Dict[str, Any]]:
    """Returns ration's kernelspecs, each with its name, `folder`, `display_name`, `limit` and `argv`."""
    from jupyter_client.kernelspec import KernelSpecManager
    result = {}
    for name, folder in KernelSpecManager(ensure_native_kernel=False).find_kernel_specs().items():
        try:
            spec = json.loads(pathlib.Path(folder, "kernel.json").read_text("utf-8"))
        except (OSError, ValueError):
            continue
        own = spec.get("metadata", {}).get("ration")
        if own:
            result[name] = {"folder": folder, "display_name": spec["display_name"], "limit": own["limit"],
                            "argv": spec["argv"]}
    return result


def uninstall(name: str) -> str:
    """Removes a kernelspec of ration's and returns the folder that it had.

    Raises:
        RuntimeError: there is no kernelspec of that name.
    """
    from jupyter_client.kernelspec import KernelSpecManager
    if name not in installed():
        raise RuntimeError(f"no kernel of ration's is named '{name}': python -m ration_jupyter list")
    return KernelSpecManager(ensure_native_kernel=False).remove_kernel_spec(name)
