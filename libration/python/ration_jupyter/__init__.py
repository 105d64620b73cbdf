"""ration in Jupyter: kernels under a limit, JupyterHub, and the memory of notebooks in JupyterLab's status bar.

    python -m ration_jupyter install --limit 4GiB       # a kernel "Python 3 · 4 GiB GPU"
    from ration_jupyter import hub; hub.configure(c, limit='4GiB')                       # in jupyterhub_config.py

This package is outside `ration`, because importing `ration` makes the process a workload, and a hub or a Jupyter server
is not a workload. It needs only the standard library and the packages that Jupyter itself installs.
"""
from __future__ import annotations

from typing import Dict, List


def _jupyter_server_extension_points() -> List[Dict[str, str]]:
    return [{"module": "ration_jupyter.server"}]


def _jupyter_labextension_paths() -> List[Dict[str, str]]:
    return [{"src": "labextension", "dest": "ration-jupyter"}]
