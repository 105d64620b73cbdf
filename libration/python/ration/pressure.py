"""Callbacks for moments when device memory is short."""
from __future__ import annotations

import atexit
import ctypes
import threading
from typing import Callable, Dict

from . import _native

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p)
_live: Dict[int, object] = {}  # by number: the callbacks that the library may still call
_inside = threading.local()


class PressureHandle:
    """The result of on_pressure(). `cancel()` ends the calls, and waits until no thread runs the function. If
    the function itself calls `cancel()`, the call does not wait."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __repr__(self) -> str:
        return f"<ration.PressureHandle {self._number}: {'called' if self._number in _live else 'cancelled'}>"

    def cancel(self) -> None:
        _native.call("remove_pressure_callback", None, ctypes.c_uint64(self._number))
        if not getattr(_inside, "depth", 0):
            _live.pop(self._number, None)  # inside a callback it stays: another thread may be about to call it


def on_pressure(function: Callable[[int], object]) -> PressureHandle:
    """Calls `function(wanted)` when device memory is short, so that the program can release memory that it does not
    need.

    There are two cases:

    - A request of this process was denied. `wanted` is the size of the request in bytes. The function runs on the
      thread of the request. Then this thread tries the request once more.
    - A request of another process of the workload was denied or waits, or the limit fell below the use of this process.
      `wanted` is 0. The function runs on a thread of ration's.

    If the function raises an exception, the exception is printed, and nothing else happens.

    Returns:
        A handle with `cancel()`.

    Raises:
        TypeError: `function` cannot be called.
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
