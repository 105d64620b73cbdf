"""`tf.config` for ration's own pool, with TensorFlow's names, rules, error classes and texts.

A script that configures TensorFlow works after a change of one import. Sizes are in MiB where TensorFlow uses MiB
(`LogicalDeviceConfiguration.memory_limit`) and in bytes where TensorFlow uses bytes (`get_memory_info`). Every setting
is also made in TensorFlow, whether TensorFlow was imported before or is imported later. Once TensorFlow is initialised, a setting
applies to ration's pool only, and warns. TensorFlow answers queries that start devices (`list_logical_devices`,
`get_memory_info`, …) if it is imported and ration's pool has handed out no memory. All functions are thread-safe. Other
names, such as `set_soft_device_placement`, are TensorFlow's: docs/tensorflow.md lists them.
"""
from __future__ import annotations

import collections
import ctypes
import sys
import types
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Union

from ... import _native, _warnings, sizes
from ..on_import import when_imported


class PhysicalDevice(NamedTuple):
    """A device of this machine, such as `PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')`."""
    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device that the runtime created, such as `LogicalDevice(name='/device:GPU:0', device_type='GPU')`."""
    name: str
    device_type: str


class LogicalDeviceConfiguration(
        collections.namedtuple("LogicalDeviceConfiguration",
                               ["memory_limit", "experimental_priority", "experimental_device_ordinal"])):
    """The configuration of one logical device.

    Args:
        memory_limit: the limit in MiB (a float is allowed); required for GPUs.
        experimental_priority: the priority of the device's streams; a smaller number goes first.
        experimental_device_ordinal: the place of the device among all logical devices.
    """
    __slots__ = ()

    def __new__(cls, memory_limit: Optional[float] = None, experimental_priority: Optional[int] = None,
                experimental_device_ordinal: Optional[int] = None) -> "LogicalDeviceConfiguration":
        return super().__new__(cls, memory_limit, experimental_priority, experimental_device_ordinal)


def _known(device: Any) -> _native.Device:
    """Converts a device for the library. Raises ValueError for a value that list_physical_devices() cannot have returned."""
    if not (isinstance(device, tuple) and len(device) == 2 and all(isinstance(part, str) for part in device)):
        raise ValueError(f"Unrecognized device: {device!r}")
    return _native.device(*device)


def _forward(function: Callable[[Any], None], what: str) -> None:
    """Calls `function` with TensorFlow's `tf.config`, at once or when TensorFlow is imported."""
    def apply(tensorflow: types.ModuleType) -> None:
        config = getattr(tensorflow, "config", None)
        if config is None or not hasattr(config, "set_visible_devices"):
            return
        try:
            function(config)
        except RuntimeError as problem:
            _warnings.warn(f"{what} applies to ration's pool only: TensorFlow says '{problem}'")

    when_imported(apply)


def _theirs(config: Any, devices: Sequence[PhysicalDevice]) -> List[Any]:
    named = {device.name: device for device in config.list_physical_devices()}
    return [named[device[0]] for device in devices if device[0] in named]


def list_physical_devices(device_type: Optional[str] = None) -> List[PhysicalDevice]:
    """Returns the devices of this machine, or those of a type ('CPU', 'GPU'). Does not initialise the runtime."""
    return [PhysicalDevice(each.name.decode(), each.type.decode())
            for each in _native.devices("list_physical_devices", device_type)]


def in_use() -> Optional[types.ModuleType]:
    """Returns TensorFlow's `tf.config` if it is imported and ration's pool has handed out no memory. Otherwise returns None:
    the devices in use are those of ration's pool."""
    theirs = getattr(sys.modules.get("tensorflow"), "config", None)
    if not hasattr(theirs, "list_logical_devices"):
        return None
    if _native.library.ration_is_initialized(None) and any(
            experimental.pool_memory_info(each.name)["num_allocs"] for each in pool_devices("GPU")):
        return None
    return theirs


def list_logical_devices(device_type: Optional[str] = None) -> List[LogicalDevice]:
    """Returns the logical devices. Initialises the runtime, which fixes the configuration."""
    theirs = in_use()
    return pool_devices(device_type) if theirs is None else [
        LogicalDevice(*each) for each in theirs.list_logical_devices(device_type)]


def pool_devices(device_type: Optional[str] = None) -> List[LogicalDevice]:
    """Returns the devices of ration's pool and initialises it."""
    return [LogicalDevice(each.name.decode(), each.type.decode())
            for each in _native.devices("list_logical_devices", device_type)]


def get_visible_devices(device_type: Optional[str] = None) -> List[PhysicalDevice]:
    """Returns the physical devices that the runtime uses, in the order of its logical devices."""
    return [PhysicalDevice(each.name.decode(), each.type.decode())
            for each in _native.devices("get_visible_devices", device_type)]


def set_visible_devices(devices: Union[PhysicalDevice, Sequence[PhysicalDevice]],
                        device_type: Optional[str] = None) -> None:
    """Sets the devices that the runtime uses; their order is the order of the logical devices.

    Args:
        devices: one device, a list of devices, or [] for no device.
        device_type: the type whose devices are replaced; None for all types.

    Raises:
        ValueError: a device is not of this machine, or not of that type.
        RuntimeError: the runtime is initialised, and the call would change something.
    """
    wanted = list(devices) if isinstance(devices, list) else [devices]
    given = [_known(device) for device in wanted]
    kind = None if device_type is None else device_type.encode()
    _native.call("set_visible_devices", None, _native.array(_native.Device, given), ctypes.c_size_t(len(given)), kind)
    _forward(lambda config: config.set_visible_devices(_theirs(config, wanted), device_type), "set_visible_devices()")


def set_logical_device_configuration(device: PhysicalDevice,
                                     logical_devices: Sequence[LogicalDeviceConfiguration]) -> None:
    """Divides a device into logical devices. No limit of the process raises a logical device above its `memory_limit`; a
    limit that is smaller than the sum is divided in proportion.

    Raises:
        ValueError: an unknown device, a GPU entry without a limit, a limit that is no number, or a CPU entry with a
            limit.
        RuntimeError: the runtime is initialised, and the call would change something.
    """
    known = _known(device)
    entries = []
    for entry in logical_devices:
        raw = _native.LogicalConfiguration(size=ctypes.sizeof(_native.LogicalConfiguration))
        if entry.memory_limit is not None:
            raw.has, raw.memory_limit_mib = raw.has | 1, sizes.mib(entry.memory_limit, "memory_limit")
        if entry.experimental_priority is not None:
            raw.has, raw.priority = raw.has | 2, entry.experimental_priority
        if entry.experimental_device_ordinal is not None:
            raw.has, raw.device_ordinal = raw.has | 4, entry.experimental_device_ordinal
        entries.append(raw)
    _native.call("set_logical_devices", None, ctypes.byref(known), _native.array(_native.LogicalConfiguration, entries),
                 ctypes.c_size_t(len(entries)))
    _tell_logical_devices(device, logical_devices, "set_logical_device_configuration()")


def _tell_logical_devices(device: PhysicalDevice, logical_devices: Sequence[LogicalDeviceConfiguration], what: str) -> None:
    """Also divides the device in TensorFlow."""
    _forward(lambda config: [config.set_logical_device_configuration(
        each, [config.LogicalDeviceConfiguration(*entry) for entry in logical_devices])
        for each in _theirs(config, [device])] and None, what)


def get_logical_device_configuration(device: PhysicalDevice) -> Optional[List[LogicalDeviceConfiguration]]:
    """Returns the configuration of a device, or None if it has none."""
    known = _known(device)
    count, is_set = ctypes.c_size_t(), ctypes.c_int()
    _native.call("get_logical_devices", None, ctypes.byref(known), None, ctypes.c_size_t(0), ctypes.byref(count),
                 ctypes.byref(is_set))
    if not is_set.value:
        return None
    raw = _native.array(_native.LogicalConfiguration, [_native.LogicalConfiguration() for _ in range(count.value)])
    _native.call("get_logical_devices", None, ctypes.byref(known), raw, count, ctypes.byref(count),
                 ctypes.byref(is_set))
    return [LogicalDeviceConfiguration(sizes.shortest(entry.memory_limit_mib) if entry.has & 1 else None,
                                       entry.priority if entry.has & 2 else None,
                                       entry.device_ordinal if entry.has & 4 else None)
            for entry in list(raw)[:count.value]]


from . import experimental, optimizer, threading  # noqa: E402  (uses the names above)
from .. import forward  # noqa: E402

__all__ = [
    "LogicalDevice", "LogicalDeviceConfiguration", "PhysicalDevice", "experimental", "get_logical_device_configuration",
    "get_visible_devices", "list_logical_devices", "list_physical_devices", "optimizer", "set_logical_device_configuration",
    "set_visible_devices", "threading",
]
__getattr__, __dir__ = forward.to_tensorflow(__name__)
