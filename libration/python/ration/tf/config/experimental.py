"""`tf.config.experimental`: growth, statistics, details, and limits that can change at any time."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Optional

from ... import _native, _warnings, activation
from ...sizes import Size, with_unit
from .. import forward
from . import (LogicalDeviceConfiguration, PhysicalDevice, _forward, _known, _theirs, get_logical_device_configuration,
               get_visible_devices, in_use, list_logical_devices, list_physical_devices, set_logical_device_configuration,
               set_visible_devices)

VirtualDeviceConfiguration = LogicalDeviceConfiguration
set_virtual_device_configuration = set_logical_device_configuration
get_virtual_device_configuration = get_logical_device_configuration


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Sets whether a GPU's pool starts small and grows, or allocates all memory at the start.

    Raises:
        ValueError: the device is unknown, is not a GPU, or has configured logical devices.
        RuntimeError: the runtime is initialised, and the call would change something.
    """
    _native.call("set_memory_growth", None, ctypes.byref(_known(device)), int(bool(enable)))
    _forward(lambda config: [config.experimental.set_memory_growth(each, enable)
                             for each in _theirs(config, [device])] and None, "set_memory_growth()")


def get_memory_growth(device: PhysicalDevice) -> bool:
    """Returns True if growth was enabled."""
    enabled = ctypes.c_int()
    _native.call("get_memory_growth", None, ctypes.byref(_known(device)), ctypes.byref(enabled))
    return bool(enabled.value)


def get_memory_info(device: str) -> Dict[str, Any]:
    """Returns the memory of a logical device. Initialises the runtime.

    Args:
        device: `GPU:0`, `/gpu:0`, `/device:GPU:0` or the full job name.

    Returns:
        `current` and `peak`, the bytes handed out; for ration's pool also `held` and `peak_held` (taken from the
        device), `limit`, `num_allocs` (a count), `largest_alloc_size`, `largest_free_block`, `fragmentation` (0 to 1).

    Raises:
        ValueError: the device does not exist, or is the CPU.
    """
    theirs = in_use()
    return pool_memory_info(device) if theirs is None else theirs.experimental.get_memory_info(device)


def pool_memory_info(device: str) -> Dict[str, Any]:
    """Returns the memory of a logical device of ration's pool and initialises the pool."""
    raw = _native.MemoryInfo(size=ctypes.sizeof(_native.MemoryInfo))
    _native.call("get_memory_info", None, str(device).encode(), ctypes.byref(raw))
    return {name: getattr(raw, name) for name, _ in raw._fields_[2:]}


def get_memory_usage(device: str) -> int:
    """Returns `get_memory_info(device)['current']`. Deprecated, as in TensorFlow."""
    _warnings.warn("get_memory_usage() is deprecated: use get_memory_info(device)['current']", DeprecationWarning)
    return get_memory_info(device)["current"]


def reset_memory_stats(device: str) -> None:
    """Sets the peak to the current use."""
    theirs = in_use()
    if theirs is None:
        _native.call("reset_memory_stats", None, str(device).encode())
    else:
        theirs.experimental.reset_memory_stats(device)


def get_device_details(device: PhysicalDevice) -> Dict[str, Any]:
    """Returns details of a physical GPU, or {} for the CPU.

    Returns:
        `device_name`, `compute_capability` (two ints), and ration's `memory_total` and `memory_used` in bytes. Under a limit
        the total is the limit in force. The use is the larger of two figures: what the driver reports to this process, and
        what the workload holds. The second can be larger after the limit was lowered.
    """
    if not isinstance(device, tuple) or len(device) != 2 or not hasattr(device, "device_type"):
        raise ValueError(f"device must be a tf.config.PhysicalDevice, but got: {device}")
    raw = _native.DeviceDetails(size=ctypes.sizeof(_native.DeviceDetails))
    _native.call("get_device_details", None, ctypes.byref(_known(device)), ctypes.byref(raw))
    if device.device_type != "GPU":
        return {}
    return {"device_name": raw.device_name.decode(),
            "compute_capability": (raw.capability_major, raw.capability_minor),
            "memory_total": raw.memory_total, "memory_used": max(raw.memory_used, _held_by_workload(_number(device)))}


def _number(gpu: PhysicalDevice) -> int:
    return int(gpu[0].rsplit(":", 1)[1])


def _held_by_workload(gpu: int) -> int:
    """Returns the bytes that the workload holds, even if they exceed its limit; the driver would then report only the limit.
    Returns 0 if this process is not governed."""
    from ... import limits  # imported here, because it imports this module
    try:
        return limits.workload(gpu)["used"]
    except ValueError:
        return 0


def set_memory_limit(device: PhysicalDevice, limit: Optional[Size]) -> None:
    """Limits this process's workload on a device: TensorFlow and everything else in the process. Can be called at any
    time, with growth and during training.

    While the workload holds more than a lowered limit, it gets no more memory, and its free memory goes back at once.

    Args:
        device: from list_physical_devices('GPU').
        limit: `'6GiB'`, `'50%'`, or `0.5` (a share, up to 1.0); a number of at least 512 is MiB, as in TensorFlow. None
            removes the limit.

    Raises:
        ValueError: the limit is not above 0, exceeds what the workload was given, or is a text without a unit or
            a number below 512, which might mean GiB.
        RuntimeError: the GPU's driver was loaded before ration, so the limit would have no effect.
    """
    activation.require()
    known = ctypes.byref(_known(device))
    if limit is None:
        _native.call("clear_memory_limit", None, known)
        return
    get_memory_limit(device)  # raises ValueError for an unknown device
    _native.call("set_memory_limit_text", None, known, _native.text(with_unit(limit, "set_memory_limit", warn=False)))
    from ... import limits  # imported here, because it imports this module
    limits.release_caches([_number(device)])


def get_memory_limit(device: PhysicalDevice) -> Optional[int]:
    """Returns the limit of set_memory_limit() in bytes, or None if none was set."""
    limit = ctypes.c_uint64()
    _native.call("get_memory_limit", None, ctypes.byref(_known(device)), ctypes.byref(limit))
    return limit.value or None


def trim(device: str) -> int:
    """Gives unused memory of ration's pool back to the device. Returns the number of bytes."""
    pool_memory_info(device)  # raises ValueError for an invalid name
    went = ctypes.c_uint64()
    _native.call("trim", None, int(device.rsplit(":", 1)[1]), ctypes.byref(went))
    return went.value


__all__ = [
    "VirtualDeviceConfiguration", "get_device_details", "get_memory_growth", "get_memory_info", "get_memory_limit",
    "get_memory_usage", "get_virtual_device_configuration", "get_visible_devices", "list_logical_devices",
    "list_physical_devices", "reset_memory_stats", "set_memory_growth", "set_memory_limit",
    "set_virtual_device_configuration", "set_visible_devices", "trim",
]
__getattr__, __dir__ = forward.to_tensorflow(__name__)
