"""Callbacks for when device memory is short."""
from __future__ import annotations

import atexit
import ctypes
import threading
from typing import Callable, Dict

from . import _native

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p)
_live: Dict[int, object] = {}  # by number: what the library may still call
_inside = threading.local()


class PressureHandle:
    """The result of on_pressure(). `cancel()` ends it, and returns when no thread is inside the function any more (called
    from inside such a function, it returns at once)."""

    def __init__(self, number: int) -> None:
        self._number = number

    def cancel(self) -> None:
        _native.call("remove_pressure_callback", None, ctypes.c_uint64(self._number))
        if not getattr(_inside, "depth", 0):
            _live.pop(self._number, None)  # else another thread may still be on its way into it


def on_pressure(function: Callable[[int], object]) -> PressureHandle:
    """Calls `function(wanted)` when device memory is short, so that a program can let go of what it could do without.

    `wanted` is the bytes that a request of this process was denied: the function runs on that request's thread, which
    then tries once more. It is 0 where another process of the workload was denied or waits, or the limit fell below what
    this one holds; the function then runs on a thread of ration's. An exception in it is printed as one in a destructor
    is, and changes nothing.

    Returns:
        A handle with `cancel()`.

    Raises:
        TypeError: not something to call.
    """
    if not callable(function):
        raise TypeError(f"on_pressure() needs a function, not {function!r}")
    def called(wanted: int, _: object) -> None:
        _inside.depth = getattr(_inside, "depth", 0) + 1
        try:
            function(wanted)
        finally:
            _inside.depth -= 1

    callback = _CALLBACK(called)
    number = ctypes.c_uint64()
    _native.call("on_pressure", None, callback, None, ctypes.byref(number))
    _live[number.value] = callback
    return PressureHandle(number.value)


@atexit.register
def _cancel_all() -> None:
    for number in list(_live):
        PressureHandle(number).cancel()
