"""What the GPUs of this process hold, for people."""
from __future__ import annotations

import sys
from typing import Any, Optional, TextIO

from . import _native, sizes
from .tf import config


def log_memory_usage(file: Optional[TextIO] = None) -> str:
    """Writes one line for each GPU: its total, what is used by whomever, and what ration's pool has.

    Args:
        file: standard error if not given.

    Returns:
        The same text.
    """
    lines = []
    for index, gpu in enumerate(config.list_physical_devices("GPU")):
        details = config.experimental.get_device_details(gpu)
        lines.append(f"GPU {index}  {details['device_name']}  {sizes.text(details['memory_used'])} used of "
                     f"{sizes.text(details['memory_total'])}")
    if _native.library.ration_is_initialized(None):
        for device in config.list_logical_devices("GPU"):
            info = config.experimental.get_memory_info(device.name)
            lines.append(f"{device.name}  {sizes.text(info['current'])} in use, {sizes.text(info['held'])} taken, peak "
                         f"{sizes.text(info['peak'])}, limit {sizes.text(info['limit'])}")
    text = "\n".join(lines) if lines else "no GPU"
    print(text, file=file or sys.stderr)
    return text


def memory_map(device: int = 0, format: str = "json") -> Any:
    """What stands where in logical GPU `device`'s memory: a dict, or with `format='svg'` a picture as text."""
    if format not in ("json", "svg"):
        raise ValueError(f"format is 'json' or 'svg', not {format!r}")
    text = _native.memory_map(device, format == "svg")
    if format == "svg":
        return text
    import json
    return json.loads(text)
