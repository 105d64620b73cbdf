"""Magics for notebooks: `%load_ext ration`."""
from __future__ import annotations

import atexit
import sys
from typing import Any, Callable

from . import activation, sizes
from .guard import MemoryGuard
from .limits import limit
from .report import get_memory_details, log_memory_usage


def restart(start: Callable[[], None]) -> None:
    """Restarts this kernel in the same process, so the front end stays connected."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        stream.close()  # also restores descriptors 1 and 2, which the kernel redirects
    start()


_status: Any = None


def show_workload() -> None:
    """Prints use, limit and the newest denial, as the status bar of JupyterLab shows them."""
    global _status
    try:
        from ration_jupyter import status
        _status = _status or status.Status()
        for row in _status.of():
            print(status.text(row))
    except (ImportError, OSError, RuntimeError):  # without the command, `%ration` prints only what the frameworks hold
        pass


def set_limit(size: str) -> None:
    """Sets the limit and prints the change on each GPU, in the words of `ration set`."""
    former = get_memory_details()
    limit(size)
    for gpu, (before, now) in enumerate(zip(former, get_memory_details())):
        print(f"limit {sizes.text(before['memory_total'])} → {sizes.text(now['memory_total'])} on GPU {gpu}")
    if not former:
        print("no GPU, nothing is limited")


def register(shell: Any) -> None:
    """Adds `%ration` (memory in use), `%ration limit 4GiB`, `%ration restart [4GiB]` and `%%ration_guard 2GiB`.

    `%ration restart` keeps the limit of a kernel that already has one. `%ration limit` changes a limit without a restart.
    """

    def ration(line: str) -> None:
        words = line.split()
        if not words:
            show_workload()
            log_memory_usage(sys.stdout)
        elif len(words) == 2 and words[0] == "limit":
            set_limit(words[1])
        elif words[0] == "restart" and len(words) <= 2:
            is_limited, size = activation.is_governed(), words[1] if len(words) == 2 else None
            if is_limited and size is not None:
                print(f"This kernel is under a limit already: %ration limit {size} changes it.")
            else:
                atexit.register(restart, activation.prepare_restart(size))
                under = "its present limit" if is_limited else "a limit"
                print(f"This kernel starts again under {under}: run the cells again, from the first cell.")
                shell.exit_now = True  # takes effect once the cell is answered
        else:
            print("%ration  or  %ration limit 4GiB  or  %ration restart [4GiB]")

    def ration_guard(line: str, cell: str) -> None:
        with MemoryGuard(line.strip(), name="cell"):
            shell.run_cell(cell)

    shell.register_magic_function(ration, "line", "ration")
    shell.register_magic_function(ration_guard, "cell", "ration_guard")
