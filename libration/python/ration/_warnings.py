"""Warnings that point to the user's line."""
from __future__ import annotations

import os
import sys
import types
import warnings
from typing import Optional, Type

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _caller(frame: types.FrameType) -> Optional[types.FrameType]:
    """Returns the frame of the caller. Skips frames of the import system, as `warnings` does."""
    above = frame.f_back
    while above is not None and "importlib" in above.f_code.co_filename and "_bootstrap" in above.f_code.co_filename:
        above = above.f_back
    return above


def warn(text: str, category: Type[Warning] = UserWarning) -> None:
    """Makes a warning that points to the innermost line of the call stack outside this package."""
    level, frame = 2, _caller(sys._getframe())
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, _caller(frame)
    warnings.warn(text, category, stacklevel=level)
