"""MemoryGuard: checks the device memory that a block of code allocates."""
from __future__ import annotations

import threading
import types
from typing import Dict, List, Optional, Tuple, Type

from . import _warnings, frameworks, limits, sizes
from ._native import MemoryLimitExceeded
from .tf import config

_lock = threading.Lock()
_open: List["Measurement"] = []


class Measurement:
    """The device memory that a block of code allocates at its peak. Measurements can be nested.

    The measurement is a sum over the frameworks of this process and ration's pool. For each of them, the sum contains
    the peak of its tensors, minus the bytes of its tensors at the beginning of the block. TensorFlow counts the whole
    chunk that contains a tensor; a chunk can be 128 MB larger than its tensor.

    If no framework has started, the measurement is the growth of the workload on all GPUs. In an ungoverned process, it
    is the growth of all processes on these GPUs.

    The peak of a workload cannot be reset, and neither can JAX's peak. With such a peak, the measurement misses memory
    that the block freed again, unless the use exceeded all earlier peaks.

    Attributes:
        growth: bytes at the peak minus bytes at the beginning, over all frameworks.
        peak: bytes at the peak, including those held before.
        of: the growth by framework and device, such as `{'PyTorch cuda:0': 419430400}`.
    """

    def __init__(self) -> None:
        self.growth = self.peak = 0
        self.of: Dict[str, int] = {}

    def start(self) -> None:
        with _lock:
            for other in _open:  # their peaks are about to be reset
                other._look()
            frameworks.reset_peaks()
            self._before = frameworks.memory()
            self._highest: Dict[str, int] = {}
            _open.append(self)
        self._devices_before, self._devices_peak = _on_devices()

    def stop(self) -> "Measurement":
        with _lock:
            _open.remove(self)
        return self.look()

    def look(self) -> "Measurement":
        """Computes the figures up to this moment."""
        with _lock:
            self._look()
        grown = {name: highest - (self._before[name].allocated if name in self._before else 0)
                 for name, highest in self._highest.items()}
        self.peak = sum(self._highest.values())
        if not self._highest:
            now, peak = _on_devices()
            self.peak = peak if peak > self._devices_peak else now
            grown = {"all GPUs": self.peak - self._devices_before}
        self.of = {name: size for name, size in grown.items() if size > 0}
        self.growth = sum(self.of.values())
        return self

    def _look(self) -> None:
        for name, now in frameworks.memory().items():
            before = self._before.get(name)
            is_of_before = before is not None and now.peak == before.peak > before.allocated  # an earlier peak
            self._highest[name] = max(now.allocated if is_of_before else now.peak, self._highest.get(name, 0))


def _on_devices() -> Tuple[int, int]:
    """Returns the bytes in use on all GPUs, and their peak; if the peak is not known, returns the bytes in use twice."""
    used = peak = 0
    for number, gpu in enumerate(config.get_visible_devices("GPU")):
        try:
            now = limits.workload(number)
        except ValueError:  # not governed
            in_use = config.experimental.get_device_details(gpu)["memory_used"]
            now = {"used": in_use, "peak": in_use}
        used, peak = used + now["used"], peak + now["peak"]
    return used, peak


class MemoryGuard:
    """A check that raises, or warns, if a block of code allocated more device memory than allowed. Checks can be nested.

    The check counts tensors, as the frameworks do (see `Measurement`). A tensor of 400 MiB counts as 400 MiB, even if
    the framework took more memory from the device for this tensor. The tensor also counts if the block freed it again.

    Args:
        max_memory: `'2GiB'`, `'512MiB'`, or `'50%'` of the first GPU.
        action: `'raise'` or `'warn'`.
        name: the name of the block in the error text.

    Attributes:
        growth, peak: bytes, after the block; see `Measurement`.

    Raises:
        ValueError: an invalid size or action.
        MemoryLimitExceeded: the block allocated more; raised at the end of the block.
    """

    _written_as = "MemoryGuard"  # how the program wrote it; the marker of pytest has another name

    def __init__(self, max_memory: sizes.Size, action: str = "raise", name: Optional[str] = None) -> None:
        if action not in ("raise", "warn"):
            raise ValueError(f"action is 'raise' or 'warn', not {action!r}")
        gpus = config.list_physical_devices("GPU")
        total = config.experimental.get_device_details(gpus[0])["memory_total"] if gpus else None
        self.max_memory = sizes.parse(sizes.with_unit(max_memory, "MemoryGuard"), total)
        self.action = action
        self.name = name
        self.growth = self.peak = 0

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<ration.MemoryGuard{name}: at most {sizes.text(self.max_memory)}, took {sizes.text(self.growth)}>"

    def __enter__(self) -> "MemoryGuard":
        self._measurement = Measurement()
        self._measurement.start()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        self._measurement.stop()
        self.growth, self.peak = self._measurement.growth, self._measurement.peak
        if kind is not None or self.growth <= self.max_memory:
            return
        block = f"the block '{self.name}'" if self.name else "the guarded block"
        parts = ", ".join(f"{name} {sizes.text(size)}" for name, size in self._measurement.of.items())
        text = (f"{block} took {sizes.text(self.growth)} of GPU memory, {sizes.text(self.growth - self.max_memory)} more "
                f"than its {sizes.text(self.max_memory)} ({parts}). To allow it: "
                f"{self._written_as}('{-(-self.growth // (1 << 20))}MiB')")
        if self.action == "raise":
            raise MemoryLimitExceeded(text, self.growth, self.max_memory, self.growth)
        _warnings.warn(text, ResourceWarning)
