"""A callback that records the memory use of the GPUs in each epoch."""
from __future__ import annotations

import csv
import pathlib
import sys
from typing import Any, Dict, Optional

from .tf import config


def _base() -> type:
    for name in ("keras", "tensorflow.keras"):
        callbacks = getattr(sys.modules.get(name), "callbacks", None)
        if callbacks is not None:
            return callbacks.Callback
    return object


def Callback(log_dir: str = "logs") -> Any:  # noqa: N802  (users call it as a class)
    """Returns a Keras callback that records the memory of each logical GPU after every epoch. Import Keras first.

    The callback records the bytes in use and the peak. For ration's pool, it also records the bytes taken from the
    device, and the limit. The callback writes these numbers into `logs` (as `gpu0_current`, …) and into `gpu_memory.csv`
    in `log_dir`. If TensorFlow is imported, the callback also writes scalars for TensorBoard into `log_dir`. After each
    epoch, the callback resets the peak.
    """
    class MemoryCallback(_base()):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._folder = pathlib.Path(log_dir)
            self._writer: Optional[Any] = None

        def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
            figures: Dict[str, int] = {}
            for index, gpu in enumerate(config.list_logical_devices("GPU")):
                info = config.experimental.get_memory_info(gpu.name)
                figures.update({f"gpu{index}_{name}": info[name] for name in ("current", "peak", "held", "limit") if name in info})
                config.experimental.reset_memory_stats(gpu.name)
            if logs is not None:
                logs.update(figures)
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / "gpu_memory.csv"
            is_new = not path.exists()
            with path.open("a", newline="") as file:
                rows = csv.DictWriter(file, ["epoch", *figures])
                if is_new:
                    rows.writeheader()
                rows.writerow({"epoch": epoch, **figures})
            summary = getattr(sys.modules.get("tensorflow"), "summary", None)
            if summary is not None:
                self._writer = self._writer or summary.create_file_writer(str(self._folder))
                with self._writer.as_default():
                    for name, value in figures.items():
                        summary.scalar(name, value, step=epoch)

    return MemoryCallback()
