"""Makes sessions of TensorFlow 1 keep the share of the GPU that their configuration gives them.

TensorFlow ignores `per_process_gpu_memory_fraction` if `TF_DEVICE_MIN_SYS_MEMORY_IN_MB` is set. ration sets this variable,
so that TensorFlow leaves less of a limit unused. Therefore a session with a share of its own starts without the variable.
"""
from __future__ import annotations

import functools
import os
import threading
import types
from typing import Any

from .on_import import when_imported

_RESERVE = "TF_DEVICE_MIN_SYS_MEMORY_IN_MB"
_BY_RATION = "128"  # the value that ration sets; any other is the user's and outranks the share, as in TensorFlow
_beginning = threading.Lock()


def install() -> None:
    """Has no effect without TensorFlow, and no effect on a session without a share."""
    when_imported(_govern)


def _has_share(config: Any) -> bool:
    return getattr(getattr(config, "gpu_options", None), "per_process_gpu_memory_fraction", 0) > 0


def _govern(tensorflow: types.ModuleType) -> None:
    try:
        base = tensorflow.compat.v1.Session.__mro__[1]  # the base of InteractiveSession, too
    except AttributeError:  # no TensorFlow with sessions
        return
    begin = base.__init__

    @functools.wraps(begin)
    def begin_with_its_share(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        if not _has_share(config):
            begin(self, target, graph, config)
            return
        with _beginning:
            reserve = os.environ.pop(_RESERVE) if os.environ.get(_RESERVE) == _BY_RATION else None
            try:
                begin(self, target, graph, config)
            finally:
                if reserve is not None:
                    os.environ[_RESERVE] = reserve

    base.__init__ = begin_with_its_share
