"""JAX under a limit."""
from __future__ import annotations

import os
import sys

from . import _warnings, limits
from .sizes import Size
from .tf import config


def _has_started() -> bool:
    bridge = sys.modules.get("jax._src.xla_bridge")
    started = getattr(bridge, "backends_are_initialized", None)
    return bool(started is not None and started())


def limit(size: Size, preallocate: bool = False) -> limits.Limit:
    """Limits the memory that JAX and ration's own pool take from each GPU.

    JAX reads its share only when JAX starts. After that, the call warns and limits only ration's pool. A limit of
    `ration run --limit` applies in any case.

    Args:
        size: `'6GiB'`, `'50%'`, or `0.5` (a share).
        preallocate: True makes JAX allocate its whole limit at its start.

    Raises:
        ValueError: an invalid size, or there is no GPU.
    """
    gpus = config.get_visible_devices("GPU")
    if not gpus:
        raise ValueError("there is no GPU on which JAX could be limited")
    result = limits.limit(size)
    if _has_started():
        _warnings.warn("JAX has started and keeps its share; the limit applies to ration's pool only. Call "
                       "ration.jax.limit() before JAX's first use, or start with: ration run --limit")
    else:
        share = config.experimental.get_memory_limit(gpus[0]) / config.experimental.get_device_details(gpus[0])["memory_total"]
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{share:.6f}"
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "true" if preallocate else "false"
    return result
