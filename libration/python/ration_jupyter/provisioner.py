"""Starts ration's kernels in Jupyter: names each after its notebook, and starts no kernel whose limit cannot be
enforced."""
from __future__ import annotations

import asyncio
from typing import Any, Dict

from jupyter_client.provisioning import LocalProvisioner

from . import kernels, program


class RationProvisioner(LocalProvisioner):
    """A provisioner that adds a name and the label `kernel` to the kernelspec's `ration run`. By this label, the status
    bar finds the workload."""

    async def pre_launch(self, **kwargs: Any) -> Dict[str, Any]:
        kwargs = await super().pre_launch(**kwargs)
        command = list(kwargs["cmd"])
        if "run" not in command or "--" not in command or not program.has(command, "--limit"):
            raise RuntimeError(f"this kernel's command is not 'ration run --limit SIZE -- PROGRAM', but: {' '.join(command)}")
        notebook = (kwargs.get("env") or {}).get("JPY_SESSION_NAME") or "notebook"
        kernel = str(self.kernel_id)
        added = ["--label", f"kernel={kernel}"]
        if not program.has(command, "--name"):
            added += ["--name", program.name_of(notebook.rsplit("/", 1)[-1], kernel[:8])]
        kwargs["cmd"] = program.with_options(command, *added)
        # The front end shows an error that is raised here; an error of `ration run` itself would only be in a log.
        await asyncio.get_running_loop().run_in_executor(None, kernels.check, kwargs["cmd"])
        return kwargs
