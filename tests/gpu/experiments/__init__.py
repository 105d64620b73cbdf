"""Experiments on the NVIDIA driver of a machine: what it does, beside what ration expects of it.

`python3 -m experiments` (``__main__.py``) runs them, each as a process of its own (``one.py``). A module for each subject adds its
experiments to the table with ``@experiment``.
"""
import dataclasses
import os
from typing import Callable, Optional

MIB = 1 << 20
GIB = 1 << 30


class NotPossible(Exception):
    """What an experiment needs is not here; the text says what: `gdb is not installed`."""


@dataclasses.dataclass
class Finding:
    """What an experiment saw."""
    found: str
    as_expected: bool
    facts: dict = dataclasses.field(default_factory=dict)  # fields of a driver's profile that were measured
    notes: list = dataclasses.field(default_factory=list)  # comments for that profile
    broken: str = ""  # a promise of ration that does not hold here; empty: all that were tried hold


@dataclasses.dataclass
class Experiment:
    number: int
    name: str
    expected: str
    seconds: int  # its time limit
    run: Callable[[], Finding]
    dangerous: bool = False  # it may hang a process for good: it comes last


TABLE: dict = {}


def experiment(number: int, name: str, expected: str, seconds: int, dangerous: bool = False):
    def add(function):
        TABLE[number] = Experiment(number, name, expected, seconds, function, dangerous)
        return function
    return add


def load_all(also: Optional[str] = None):
    """Fills the table; `also`: a file with more experiments."""
    from . import at_work, capture, code, exports, memory, opengl, processes, race, sharing, suspension, throughput, tools  # noqa: F401
    if also:
        with open(also) as file:
            exec(compile(file.read(), also, "exec"), {"__name__": "also", "__file__": also})


def setting(name: str) -> str:
    """What the runner tells an experiment: `ration` (the program's path), `sim` (a node's description; empty: a real card)."""
    return os.environ.get("RATION_EXPERIMENT_" + name.upper(), "")


def simulated() -> bool:
    return setting("sim") != ""


def mib(size) -> str:
    return "n/a" if size is None else f"{size / MIB:.0f} MiB" if abs(size) >= 10 * MIB or size % MIB == 0 else f"{size / 1024:.1f} KiB" if abs(size) < MIB else f"{size / MIB:.1f} MiB"
