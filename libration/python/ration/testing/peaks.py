"""Measures the peak memory of each test of pytest. `ration_pytest` loads this module if an option asks for this."""
from __future__ import annotations

import json
import pathlib
from typing import Any, Dict

import pytest
from ration_pytest import fail

from .. import sizes
from ..guard import Measurement

PEAK = "gpu_memory_peak_bytes"  # its property in JUnit's XML


class Peaks:
    """A plugin that measures each test, reports the peaks, and compares them with a baseline (JSON: bytes by test)."""

    def __init__(self, config: Any) -> None:
        options = config.option
        self._is_worker = hasattr(config, "workerinput")
        self._path = None if options.gpu_memory_baseline is None else pathlib.Path(options.gpu_memory_baseline)
        self._updates = options.gpu_memory_update
        self._tolerance = _share(options.gpu_memory_tolerance)
        is_there = self._path is not None and (self._path.exists() or not self._updates)
        self._baseline = _read(self._path) if is_there else {}
        self._peaks: Dict[str, int] = {}

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        measurement = Measurement()
        measurement.start()
        outcome = yield
        measurement.stop()
        item.user_properties.append((PEAK, measurement.growth))
        allowed = self._baseline.get(item.nodeid)
        if outcome.excinfo is None and allowed is not None and not self._updates and \
                measurement.growth > allowed * (1 + self._tolerance):
            fail(outcome, pytest.fail.Exception(
                f"{item.nodeid} took {sizes.text(measurement.growth)} of GPU memory at its peak; {self._path} allows "
                f"{sizes.text(allowed)} plus {self._tolerance:.0%}. If this is intended: --gpu-memory-update",
                pytrace=False))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            self._peaks.update((report.nodeid, value) for name, value in report.user_properties if name == PEAK)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        most = sorted(((peak, test) for test, peak in self._peaks.items() if peak > 0), reverse=True)
        if most:
            terminalreporter.section("GPU memory at the peak")
            for peak, test in most[:20]:
                terminalreporter.write_line(f"{sizes.text(peak):>10}  {test}")

    def pytest_sessionfinish(self) -> None:
        if self._updates and not self._is_worker:
            self._path.write_text(json.dumps({**self._baseline, **self._peaks}, indent=2, sort_keys=True) + "\n")


def _read(path: pathlib.Path) -> Dict[str, int]:
    try:
        peaks = json.loads(path.read_text())
        if not isinstance(peaks, dict) or not all(isinstance(peak, int) for peak in peaks.values()):
            raise ValueError("it is not a JSON object with a number of bytes for each test")
        return peaks
    except (OSError, ValueError) as problem:
        raise pytest.UsageError(f"--gpu-memory-baseline {path}: {problem}. Write it with --gpu-memory-update") from None


def _share(text: str) -> float:
    try:
        number = float(text[:-1]) if text.endswith("%") else -1
    except ValueError:
        number = -1
    if not 0 <= number < 1e6:
        raise pytest.UsageError(f"--gpu-memory-tolerance is a share such as 10%, not {text!r}")
    return number / 100
