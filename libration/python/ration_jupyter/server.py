"""The GPU memory that this server's notebooks hold, for the status bar of JupyterLab: an extension of the Jupyter server."""
from __future__ import annotations

import asyncio
import json
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from .status import Status


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
