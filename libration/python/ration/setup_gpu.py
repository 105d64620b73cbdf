"""Configures the GPUs with one call at the top of a program."""
from __future__ import annotations

from typing import Iterable, Optional, Sequence

from . import _native, sizes
from .tf import config


def setup_gpu(config_type: str = "growth", limit_mb: Optional[float] = None,
              visible_devices: Optional[Sequence[int]] = None) -> bool:
    """Configures the GPUs of this process.

    Args:
        config_type: with `'growth'`, the process starts with little memory and takes more when needed. With `'limit'`, it
            takes at most `limit_mb` of each GPU; in TensorFlow, each GPU becomes one logical device of this size.
            TensorFlow may be imported before or after the call.
        limit_mb: the limit for everything in the process, in MiB; optional with `'growth'`.
        visible_devices: the numbers of the GPUs to use, in the order of the logical devices; None for all GPUs.

    Returns:
        False on a machine without a GPU, where the call does nothing.

    Raises:
        ValueError: an unknown `config_type`, `'limit'` without `limit_mb`, or a GPU that does not exist.
        RuntimeError: the runtime is initialised already, and the call would change its configuration.
    """
    if config_type not in ("growth", "limit"):
        raise ValueError(f"config_type is 'growth' or 'limit', not {config_type!r}")
    if config_type == "limit" and limit_mb is None:
        raise ValueError("config_type='limit' needs limit_mb")
    gpus = config.list_physical_devices("GPU")
    if not gpus:
        return False
    if visible_devices is not None:
        if not isinstance(visible_devices, Iterable):
            raise ValueError(f"visible_devices is a list of numbers of GPUs, such as [0], not {visible_devices!r}")
        numbers = [_native.gpu(device) for device in visible_devices]
        missing = [number for number in numbers if number >= len(gpus)]
        if missing:
            raise ValueError(f"there is no GPU {missing[0]}; this machine has {len(gpus)}")
        gpus = [gpus[number] for number in numbers]
        config.set_visible_devices(gpus, "GPU")
    for gpu in gpus:
        if config_type == "growth":
            config.experimental.set_memory_growth(gpu, True)
        if limit_mb is not None:
            config.experimental.set_memory_limit(gpu, f"{int(sizes.mib(limit_mb, 'limit_mb'))}MiB")
            if config_type == "limit":
                config._tell_logical_devices(gpu, [config.LogicalDeviceConfiguration(limit_mb)], "setup_gpu()")
    return True
