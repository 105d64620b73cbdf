"""Magics for notebooks: `%load_ext ration`."""
from __future__ import annotations

from typing import Any

from .guard import MemoryGuard
from .limits import limit
from .report import log_memory_usage


def register(shell: Any) -> None:
    """Adds `%ration` (what is held), `%ration limit 4GiB` and `%%ration_guard 2GiB`."""

    def ration(line: str) -> None:
        words = line.split()
        if not words:
            import sys
            log_memory_usage(sys.stdout)
        elif len(words) == 2 and words[0] == "limit":
            limit(words[1])
        else:
            print("%ration  or  %ration limit 4GiB")

    def ration_guard(line: str, cell: str) -> None:
        with MemoryGuard(line.strip(), name="cell"):
            shell.run_cell(cell)

    shell.register_magic_function(ration, "line", "ration")
    shell.register_magic_function(ration_guard, "cell", "ration_guard")
