"""ration in Jupyter: kernels under a limit, JupyterHub, and what a notebook holds shown in JupyterLab.

    python -m ration_jupyter install --limit 4GiB       # a kernel "Python 3 · 4 GiB GPU"
    from ration_jupyter import hub; hub.configure(c, limit='4GiB')                       # in jupyterhub_config.py

A package of its own, beside `ration`: importing that one makes a workload of the process, and neither a hub nor a
Jupyter server is one. Standard library, and what Jupyter has installed itself.
"""
from __future__ import annotations

from typing import Dict, List


def _jupyter_server_extension_points() -> List[Dict[str, str]]:
    return [{"module": "ration_jupyter.server"}]


def _jupyter_labextension_paths() -> List[Dict[str, str]]:
    return [{"src": "labextension", "dest": "ration-jupyter"}]
