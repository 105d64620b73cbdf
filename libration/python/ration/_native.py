"""Loads the C library, declares its structs, and turns its status codes into exceptions."""
from __future__ import annotations

import ctypes
import operator
import os
from typing import Any, List, Optional, Sequence

_HERE = os.path.dirname(os.path.realpath(__file__))


class MemoryLimitExceeded(MemoryError):
    """A denial of device memory. Its text names the amounts, the holders and what to do.

    Attributes:
        requested: bytes that the program requested.
        limit: bytes that the pool may hold.
        held: bytes that the pool holds.
    """

    def __init__(self, text: str, requested: int = 0, limit: int = 0, held: int = 0) -> None:
        super().__init__(text)
        self.requested = requested
        self.limit = limit
        self.held = held


class Device(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("name", ctypes.c_char * 64), ("type", ctypes.c_char * 16)]


class Denial(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("requested", ctypes.c_uint64),
                ("limit", ctypes.c_uint64), ("held", ctypes.c_uint64)]


class LogicalConfiguration(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("has", ctypes.c_uint32), ("memory_limit_mib", ctypes.c_double),
                ("priority", ctypes.c_int32), ("device_ordinal", ctypes.c_int32)]


class DeviceDetails(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("capability_major", ctypes.c_int32), ("capability_minor", ctypes.c_int32),
                ("device_name", ctypes.c_char * 256), ("memory_total", ctypes.c_uint64),
                ("memory_used", ctypes.c_uint64)]


class MemoryInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("reserved", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64) for name in ("current", "peak", "held", "peak_held", "limit", "num_allocs",
                                             "largest_alloc_size", "largest_free_block")
    ] + [("fragmentation", ctypes.c_double)]


class WorkloadInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("reserved", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64) for name in ("used", "peak", "limit", "total")]


class FormerShare(ctypes.Structure):
    _fields_ = [("own", ctypes.c_uint32), ("common", ctypes.c_uint32)]


RUNTIME_ERROR = 2
_BUFFER_TOO_SMALL = 6
_ERRORS = {1: ValueError, 2: RuntimeError, 3: ValueError, 4: RuntimeError, 7: RuntimeError}


def _find() -> str:
    given = os.environ.get("RATION_LIBRARY")
    name = "libration.so.1"
    # The folders in a wheel, an unpacked package (Python in lib/ration/python), Debian's package, and the source tree.
    folders = ("native/lib", "../../..", f"../../../{os.uname().machine}-linux-gnu", "../../../build/release/lib")
    for place in (given, *(f"{_HERE}/{folder}/{name}" for folder in folders)):
        if place and os.path.exists(place):
            return place
    raise ImportError("libration.so.1 was found neither in the package nor in a build; set RATION_LIBRARY to the path of libration.so.1")


path: str = _find()
library = ctypes.CDLL(path)
library.ration_last_error.restype = ctypes.c_char_p
library.ration_version.restype = ctypes.c_char_p
library.ration_environment_problems.restype = ctypes.c_char_p


def text(value: str) -> bytes:
    """Converts a text for the library.

    Raises:
        ValueError: the value is not a text, or contains a zero byte.
    """
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"{value!r} is not a text")
    return value.encode()


def call(name: str, *arguments: Any) -> None:
    """Calls `ration_<name>` and raises the exception for its status, unless the status is OK."""
    check(getattr(library, "ration_" + name)(*arguments))


def check(status: int) -> None:
    if status == 0:
        return
    text = library.ration_last_error().decode()
    if status == 5:
        denial = Denial(size=ctypes.sizeof(Denial))
        library.ration_last_refusal(ctypes.byref(denial))
        raise MemoryLimitExceeded(text, denial.requested, denial.limit, denial.held)
    raise _ERRORS.get(status, RuntimeError)(text)


def device(name: str, device_type: str) -> Device:
    return Device(ctypes.sizeof(Device), name.encode(), device_type.encode())


def devices(function: str, device_type: Optional[str]) -> List[Device]:
    """Returns the devices that the library's function lists."""
    kind = None if device_type is None else str(device_type).encode()
    count = ctypes.c_size_t()
    call(function, None, kind, None, ctypes.c_size_t(0), ctypes.byref(count))
    out = (Device * max(count.value, 1))()
    call(function, None, kind, out, count, ctypes.byref(count))
    return list(out)[:count.value]


def gpu(device: Any, or_each: bool = False) -> int:
    """Returns the number of a GPU for the library. If `device` is None and `or_each` is True, returns -1: each GPU.

    Raises:
        ValueError: the value is not a whole number of at least 0 (an `int`, or an integer of NumPy).
    """
    if device is None and or_each:
        return -1
    try:
        number = -1 if isinstance(device, bool) else operator.index(device)
    except TypeError:
        number = -1
    if not 0 <= number < 1 << 16:
        each = ", or None for each GPU" if or_each else ""
        raise ValueError(f"there is no GPU {device!r}: device is the number of a GPU, such as 0 or 1{each}")
    return number


def memory_map(gpu: int, svg: bool) -> str:
    needed = ctypes.c_size_t()
    library.ration_memory_map(None, gpu, int(svg), None, ctypes.c_size_t(0), ctypes.byref(needed))
    while True:
        buffer = ctypes.create_string_buffer(max(needed.value, 1))
        status = library.ration_memory_map(None, gpu, int(svg), buffer, needed, ctypes.byref(needed))
        if status != _BUFFER_TOO_SMALL:
            check(status)
            return buffer.value.decode()


def array(kind: Any, items: Sequence[Any]) -> Any:
    return (kind * max(len(items), 1))(*items)
