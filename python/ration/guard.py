"""A guard for a block of code."""
from __future__ import annotations

import threading
import types
import warnings
from typing import Dict, List, Optional, Type, Union

from . import sizes
from ._native import MemoryLimitExceeded
from .tf import config


_lock = threading.Lock()
_open: List["MemoryGuard"] = []


class MemoryGuard:
    """Raises, or warns, when a block of code has taken more device memory than it may. Guards nest.

    What counts is the larger of two growths, over all visible GPUs: what ration's pool handed out at its peak, and what
    the device says is in use. The second sees frameworks with allocators of their own; without `ration run` it also sees
    other programs on the device.

    Args:
        max_memory: `'2GiB'`, `'512MiB'`, `'50%'` of the first GPU, or bytes.
        action: `'raise'` or `'warn'`.
        name: what to call the block in the text.

    Attributes:
        growth: bytes, after the block.

    Raises:
        ValueError: a size or an action that is none.
        MemoryLimitExceeded: at the end of the block.
    """

    def __init__(self, max_memory: Union[int, str], action: str = "raise", name: Optional[str] = None) -> None:
        if action not in ("raise", "warn"):
            raise ValueError(f"action is 'raise' or 'warn', not {action!r}")
        gpus = config.list_physical_devices("GPU")
        total = config.experimental.get_device_details(gpus[0])["memory_total"] if gpus else None
        self.max_memory = sizes.parse(max_memory, total)
        self.action = action
        self.name = name
        self.growth = 0

    def __enter__(self) -> "MemoryGuard":
        with _lock:
            for other in _open:  # their peaks are about to be reset
                other._look()
            self._highest: Dict[str, int] = {}
            self._before = {name: current for name, (current, _) in self._in_pools(reset=True).items()}
            _open.append(self)
        self._devices = self._on_devices()
        return self

    def _look(self) -> None:
        for name, (_, peak) in self._in_pools(reset=False).items():
            self._highest[name] = max(peak, self._highest.get(name, 0))

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        with _lock:
            _open.remove(self)
            self._look()
        pools = sum(max(peak - self._before.get(name, 0), 0) for name, peak in self._highest.items())
        devices = sum(now - before for now, before in zip(self._on_devices(), self._devices))
        self.growth = max(pools, devices, 0)
        if kind is not None or self.growth <= self.max_memory:
            return
        block = f"the block '{self.name}'" if self.name else "the guarded block"
        text = (f"{block} took {sizes.text(self.growth)} of GPU memory, {sizes.text(self.growth - self.max_memory)} more "
                f"than its {sizes.text(self.max_memory)}.")
        if self.action == "raise":
            raise MemoryLimitExceeded(text, self.growth, self.max_memory, self.growth)
        warnings.warn(text, ResourceWarning, stacklevel=2)

    @staticmethod
    def _in_pools(reset: bool) -> Dict[str, "tuple[int, int]"]:
        result = {}
        for gpu in config.list_logical_devices("GPU"):
            if reset:
                config.experimental.reset_memory_stats(gpu.name)
            info = config.experimental.get_memory_info(gpu.name)
            result[gpu.name] = (info["current"], info["peak"])
        return result

    @staticmethod
    def _on_devices() -> List[int]:
        return [config.experimental.get_device_details(gpu)["memory_used"]
                for gpu in config.get_visible_devices("GPU")]
