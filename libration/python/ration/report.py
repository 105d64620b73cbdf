"""Reports the memory on the GPUs of this process."""
from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, TextIO, Union

from . import _native, frameworks, sizes
from .tf import config


def get_memory_details() -> List[Dict[str, Any]]:
    """Returns the memory of each GPU of this process, and of each framework that has started. Starts no framework.

    Returns:
        A dict for each GPU, with `device_name`, `memory_total` and `memory_used` (in bytes), and `frameworks`. If there is a
        limit in force, `memory_total` is this limit. `frameworks` contains a dict for each framework and device, under a
        key such as `'PyTorch cuda:0'`. This dict contains, in bytes, `allocated` (by tensors), `peak`, `reserved` (taken
        from the device) and `limit`. A figure that the framework does not report is None.
    """
    held = frameworks.memory()
    result = []
    for number, gpu in enumerate(config.list_physical_devices("GPU")):
        details = config.experimental.get_device_details(gpu)
        del details["compute_capability"]
        details["frameworks"] = {name: {key: value for key, value in told._asdict().items() if key != "gpu"}
                                 for name, told in held.items() if told.gpu == number}
        result.append(details)
    return result


def log_memory_usage(file: Union[TextIO, str, "os.PathLike[str]", None] = None) -> str:
    """Writes a line for each GPU, and below it a line for each framework that holds memory there. The line of a GPU shows
    the use and the total. If there is a limit in force, the total is this limit.

    Args:
        file: the file to write to: an open file, or a path, to which the lines are appended; None for standard error.

    Returns:
        The same text.
    """
    lines = []
    for number, gpu in enumerate(get_memory_details()):
        lines.append(f"GPU {number}  {gpu['device_name']}  {sizes.text(gpu['memory_used'])} used of "
                     f"{sizes.text(gpu['memory_total'])}")
        for name, told in gpu["frameworks"].items():
            parts = [f"{sizes.text(told['allocated'])} in use", f"peak {sizes.text(told['peak'])}"]
            parts += [f"{sizes.text(told['reserved'])} taken"] if told["reserved"] is not None else []
            parts += [f"limit {sizes.text(told['limit'])}"] if told["limit"] is not None else []
            lines.append(f"  {name}  {', '.join(parts)}")
    text = "\n".join(lines) if lines else "no GPU"
    if isinstance(file, (str, os.PathLike)):
        with open(file, "a", encoding="utf-8") as opened:
            print(text, file=opened)
    else:
        print(text, file=file or sys.stderr)
    return text


def memory_map(device: int = 0, format: str = "json") -> Any:
    """Returns the layout of the memory of logical GPU `device`: a dict, or with `format='svg'` the text of a picture."""
    if format not in ("json", "svg"):
        raise ValueError(f"format is 'json' or 'svg', not {format!r}")
    text = _native.memory_map(_native.gpu(device), format == "svg")
    if format == "svg":
        return text
    import json
    return json.loads(text)
