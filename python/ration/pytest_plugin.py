"""`@pytest.mark.gpu_limit_memory("2 GiB")`: the test fails if it takes more device memory than that at its peak.

What counts is what `ration.MemoryGuard` counts. Loaded by pytest where ration is installed.
"""
from __future__ import annotations

import functools
from typing import Any

import pytest

from .guard import MemoryGuard


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "gpu_limit_memory(size): the most device memory that the test may take")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> None:
    marker = pyfuncitem.get_closest_marker("gpu_limit_memory")
    if marker is None:
        return
    if len(marker.args) != 1 or marker.kwargs:
        raise pytest.UsageError('gpu_limit_memory takes one size: @pytest.mark.gpu_limit_memory("2 GiB")')
    test = pyfuncitem.obj

    @functools.wraps(test)
    def guarded(*arguments: Any, **named: Any) -> Any:
        with MemoryGuard(marker.args[0], name=pyfuncitem.name):
            return test(*arguments, **named)

    pyfuncitem.obj = guarded
