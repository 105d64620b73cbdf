"""Profiles: how the frameworks of a process allocate memory, by the purpose of the process."""
from __future__ import annotations

import os
from typing import Optional

from . import frameworks, limits
from .setup_gpu import setup_gpu
from .sizes import Size
from .tf import config

NAMES = ("dev", "prod", "train", "test")


def profile(name: str, limit: Optional[Size] = None, devices: int = 2) -> bool:
    """Sets how this process allocates device memory. Call it before a framework allocates any.

    | name | limit | TensorFlow and JAX |
    | --- | --- | --- |
    | `'dev'` | as given, if given | start small and grow |
    | `'prod'` | as given; required | allocate the whole limit when they start, so that no later request fails |
    | `'train'` | as given, else all that this process may have | allocate the whole limit when they start |
    | `'test'` | as given, if given | the first GPU is divided into `devices` logical GPUs, which stand for several GPUs |

    PyTorch always grows. TensorFlow may be imported before or after the call.

    Returns:
        False on a machine without a GPU, where the call does nothing.

    Raises:
        ValueError: an unknown name, `'prod'` without a limit, fewer than one device, or an invalid size.
        RuntimeError: TensorFlow or JAX has started already, so its settings no longer change.
    """
    if name not in NAMES:
        raise ValueError(f"a profile is one of {', '.join(map(repr, NAMES))}, not {name!r}")
    if name == "prod" and limit is None:
        raise ValueError("profile('prod') needs a limit: profile('prod', '6GiB')")
    if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
        raise ValueError(f"devices is the number of logical GPUs, at least 1, not {devices!r}")
    gpus = config.list_physical_devices("GPU")
    if not gpus:
        return False
    started = [each.name for each in frameworks.started() if each.name in ("TensorFlow", "JAX")]
    if started:
        raise RuntimeError(f"{' and '.join(started)} started already, with the settings of that moment. Call "
                           f"ration.profile('{name}') before the first tensor.")
    if limit is not None or name == "train":
        limits.limit("max" if limit is None else limit)
    grows = name in ("dev", "test")
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = str(grows).lower()
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = str(not grows).lower()
    if name == "dev":
        return setup_gpu("growth")
    if name == "test":
        part = limits.workload(0)["limit"] // devices >> 20
        config.set_logical_device_configuration(gpus[0], [config.LogicalDeviceConfiguration(part)] * devices)
    return True
