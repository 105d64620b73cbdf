"""Limits from inside: the program itself puts the guard in front of the driver.

`import ration` does this if the driver is not loaded yet. From then on, everything in the process and in its new
children is governed: PyTorch, TensorFlow, JAX, libraries, ration's own pool.
"""
from __future__ import annotations

import ctypes
import os
import pathlib
import re
import sys
from typing import Callable, Dict, List, Optional

from . import _native, _warnings

_problem: Optional[str] = None  # why this process is not governed; None if it is governed
_too_late = False
_former: Optional[Dict[str, Optional[str]]] = None  # the variables' values before `import ration` made a workload
_made_by = 0  # the number of the process that made the workload; a child by fork has another number

_TOO_LATE = ("{} In a script: import ration first, or call ration.reexec(). In a notebook: %load_ext ration, then "
             "%ration restart. Or start the program with: ration run --limit SIZE -- PROGRAM")


def _tell_python() -> None:
    """Copies the variables that C code has set into Python's own environment, which children inherit."""
    variables = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    index = 0
    while variables[index] is not None:
        name, _, value = os.fsdecode(variables[index]).partition("=")
        if os.environ.get(name) != value:
            os.environ[name] = value
        index += 1


def activate() -> None:
    """Puts this process under a limit of its own, as `ration run` would. The limit also applies to the children that it
    starts from now on.

    `import ration` calls this function. In a governed process, the function does nothing.

    Raises:
        RuntimeError: the GPU's driver is loaded already, or there can be no limit, for example without a GPU.
    """
    _try()
    if _problem is not None:
        raise RuntimeError(_problem)


def _try() -> None:
    global _problem, _too_late
    status = _native.library.ration_activate()
    _too_late = status == _native.RUNTIME_ERROR
    if status == 0:
        _problem = None
        _tell_python()
    else:
        told = _native.library.ration_last_error().decode()
        _problem = _TOO_LATE.format(told) if _too_late else told


def _is_command() -> bool:
    """Returns True for `python -m ration` and `python -m ration.testing`. These are commands and make no workload."""
    if getattr(sys, "argv", [])[:1] != ["-m"]:  # the value of sys.argv while Python searches for the module
        return False
    with open("/proc/self/cmdline", "rb") as own:
        words = own.read().split(b"\0")[:-1]
    module = words[-len(sys.argv)]  # the word before the arguments; `-mration` is one word
    return re.fullmatch(rb"(-[bBdEiIOPqsSuvx]*m)?ration(\.testing)?", module) is not None


def at_import() -> None:
    """Puts this process under a limit, if that is possible. Warns if the driver is loaded already, and if a variable of a
    framework has an invalid value. A missing GPU is no reason for a warning. Does nothing in a command."""
    global _former, _made_by, _problem
    if _is_command():
        _problem = "python -m ration and ration.testing are commands, which have no limit."
        return
    before = dict(os.environ)
    _try()
    if "RATION_BOOK" not in before and "RATION_BOOK" in os.environ:
        _former = {name: before.get(name) for name, value in os.environ.items() if before.get(name) != value}
        _made_by = os.getpid()
    if _too_late:
        _warnings.warn(str(_problem), RuntimeWarning)
    for problem in _native.library.ration_environment_problems().decode(errors="replace").splitlines():
        _warnings.warn(problem, RuntimeWarning)


def withdraw() -> None:
    """Takes this process, and the children that it starts later, out of the workload that `import ration` made.

    Call this function before the program uses a GPU. It does nothing if `ration run` made the workload.
    """
    global _problem, _too_late, _former
    if _former is None:
        return
    book = os.environ["RATION_BOOK"]
    for name, value in _former.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    if _made_by == os.getpid():
        pathlib.Path(book).unlink(missing_ok=True)
    _former, _too_late = None, True
    _problem = "importing ration.ray has removed this program from its workload, because Ray's workers have limits of their own."


def require() -> None:
    """Raises RuntimeError if a limit would apply only to ration's own pool."""
    if _too_late:
        raise RuntimeError(_problem)


def is_governed() -> bool:
    """Returns True if limits apply to everything in this process."""
    return _problem is None


def reexec(limit: Optional[str] = None, arguments: Optional[List[str]] = None) -> None:
    """Restarts this program in the same process, so that it is governed from its start. If this program is governed already,
    only sets the limit and returns.

    Args:
        limit: the limit on each GPU, `'6GiB'`; None: as the configuration says.
        arguments: the command line; None: the current command line.

    Raises:
        RuntimeError: there can be no limit, for example without a GPU.
    """
    if is_governed():
        if limit is not None:
            _native.call("limit", None, -1, _native.text(limit))
        return
    start = prepare_restart(limit)
    sys.stdout.flush()
    sys.stderr.flush()
    start(arguments)


def prepare_restart(limit: Optional[str] = None) -> Callable[[Optional[List[str]]], None]:
    """Makes the workload for a restart of this program. Returns a function that restarts the program in the same process."""
    _native.call("prepare_restart")
    _tell_python()
    if limit is not None:
        _native.call("limit", None, -1, _native.text(limit))
    with open("/proc/self/cmdline", "rb") as own:
        command = own.read().split(b"\0")[:-1]

    def start(arguments: Optional[List[str]] = None) -> None:
        os.execv(sys.executable, [sys.executable, *(arguments or command)[1:]])

    return start
