"""The pytest plugin of an installed ration: options, a marker and fixtures.

It is outside the package `ration`, because importing that package puts this process under a limit. Only a run that uses
one of these options, markers or fixtures imports the package. `ration.testing` does the measuring.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import pytest
import ration_command

_NODE, _FOLDER = "RATION_TESTING_NODE", "RATION_TESTING_FOLDER"  # set in a run that restarted on a simulated node


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("gpu memory", "GPU memory (ration)")
    group.addoption("--gpu-sim", metavar="NODE", help="run on simulated GPUs, such as T4:16GiB or T4:16GiB*2")
    group.addoption("--gpu-memory", action="store_true", help="measure the GPU memory of each test, and show it at the end and in --junit-xml")
    group.addoption("--gpu-memory-baseline", metavar="FILE", help="a test fails if it allocates more than FILE allows for the test")
    group.addoption("--gpu-memory-update", action="store_true", help="write the measured values into the baseline instead of comparing them")
    group.addoption("--gpu-memory-tolerance", metavar="SHARE", default="10%", help="tests may exceed the baseline by this share (10%%)")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    node = early_config.known_args_namespace.gpu_sim
    if node is not None and os.environ.get(_NODE) != node:
        _start_on_simulated_node(node, early_config)


def _start_on_simulated_node(node: str, config: Any) -> None:
    """Restarts pytest in this process, with the environment of a simulated node whose state lies in a folder of this run."""
    folder = tempfile.mkdtemp(prefix="ration-testing-")
    environment = {**os.environ, "RATION_SIM_DIR": folder, "RATION_RUNTIME_DIR": folder, _NODE: node, _FOLDER: folder}
    asked = subprocess.run([ration_command.path(), "sim", "env", f"--sim={node}", "-o", "json", "--", sys.executable],
                           env=environment, capture_output=True, text=True)
    if asked.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise pytest.UsageError(f"--gpu-sim {node}: {asked.stderr.strip() or asked.stdout.strip()}")
    environment.update(json.loads(asked.stdout)["data"]["sets"])
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, "-m", "pytest", *config.invocation_params.args], environment)


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "gpu_limit_memory(size): the most GPU memory that the test may allocate")
    options = config.option
    if options.gpu_memory_update and options.gpu_memory_baseline is None:
        raise pytest.UsageError("--gpu-memory-update needs --gpu-memory-baseline FILE")
    if options.gpu_memory or options.gpu_sim or options.gpu_memory_baseline:
        from ration.testing import peaks
        config.pluginmanager.register(peaks.Peaks(config), "ration.testing")


def pytest_unconfigure(config: Any) -> None:
    folder = None if hasattr(config, "workerinput") else os.environ.get(_FOLDER)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Any:
    marker = item.get_closest_marker("gpu_limit_memory")
    if marker is not None and (len(marker.args) != 1 or marker.kwargs):
        raise pytest.UsageError('gpu_limit_memory needs exactly one size: @pytest.mark.gpu_limit_memory("2GiB")')
    if marker is None:
        yield
        return
    from ration import MemoryGuard
    try:
        guard = MemoryGuard(marker.args[0], name=item.name)
    except ValueError as error:
        raise pytest.fail.Exception(f"gpu_limit_memory({marker.args[0]!r}): {error}", pytrace=False) from None
    guard._written_as = "gpu_limit_memory"
    guard.__enter__()
    outcome = yield
    try:
        guard.__exit__(None if outcome.excinfo is None else outcome.excinfo[0], None, None)
    except MemoryError as error:
        fail(outcome, pytest.fail.Exception(str(error), pytrace=False))


def fail(outcome: Any, error: BaseException) -> None:
    """Makes a wrapped call end with an error. Raises the error if pluggy is older than 1.1, which has no function for
    this."""
    if not hasattr(outcome, "force_exception"):
        raise error
    outcome.force_exception(error)


@pytest.fixture
def gpu_limit() -> Any:
    """Returns a function: `gpu_limit('2GiB')` limits everything in this process on each GPU until the end of the test."""
    import contextlib

    from ration import limit
    with contextlib.ExitStack() as former:
        yield lambda size, device=None: former.enter_context(limit(size, device))


@pytest.fixture
def gpu_memory() -> Any:
    """Returns a function: `gpu_memory()` returns the peak of the test so far, in bytes, as the frameworks count."""
    from ration.guard import Measurement
    measurement = Measurement()
    measurement.start()
    yield lambda: measurement.look().growth
    measurement.stop()
