"""Magics for notebooks: `%load_ext ration`."""
from __future__ import annotations

from typing import Any

from . import activation
from .guard import MemoryGuard
from .limits import limit
from .report import log_memory_usage


def register(shell: Any) -> None:
    """Adds `%ration` (what is held), `%ration limit 4GiB`, `%ration restart [4GiB]` and `%%ration_guard 2GiB`."""

    def ration(line: str) -> None:
        words = line.split()
        if not words:
            import sys
            log_memory_usage(sys.stdout)
        elif len(words) == 2 and words[0] == "limit":
            limit(words[1])
        elif words[0] == "restart" and len(words) <= 2:
            if activation.is_governed():
                print("This kernel is under a limit already: %ration limit 4GiB changes it.")
            else:
                activation.reexec(words[1] if len(words) == 2 else None)
        else:
            print("%ration  or  %ration limit 4GiB  or  %ration restart [4GiB]")

    def ration_guard(line: str, cell: str) -> None:
        with MemoryGuard(line.strip(), name="cell"):
            shell.run_cell(cell)

    shell.register_magic_function(ration, "line", "ration")
    shell.register_magic_function(ration_guard, "cell", "ration_guard")
