"""Forwards names that a module of `ration.tf` lacks to the installed TensorFlow.

The first use of such a name imports TensorFlow; importing ration does not.
"""
from __future__ import annotations

import functools
import importlib
import sys
from typing import Any, Callable, List, Optional, Tuple


# The only names of TensorFlow with an underscore that programs ask for.
_VERSIONS = ("__version__", "__git_version__", "__compiler_version__")


def _elsewhere(module: str, name: str) -> Optional[str]:
    """Returns the path of a name that the module lacks and its `experimental` or its parent has, as a program writes it."""
    for other in (f"{module}.experimental", module.rpartition(".")[0]):
        if other in sys.modules and other.startswith("ration.tf.") and name in dir(sys.modules[other]):
            return f"{other[len('ration.'):]}.{name}"
    return None


def to_tensorflow(module: str) -> Tuple[Callable[[str], Any], Callable[[], List[str]]]:
    """Returns `__getattr__` and `__dir__`, which give `ration.tf.config`, for example, all names of
    `tensorflow.config`."""
    path = module.split(".")[2:]

    def get(name: str) -> Any:
        if name.startswith("_") and name not in _VERSIONS:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            tensorflow = importlib.import_module("tensorflow")
        except ModuleNotFoundError as problem:
            if problem.name != "tensorflow":
                raise
            meant = _elsewhere(module, name)
            if meant is not None:
                raise AttributeError(f"module {module!r} has no attribute {name!r}. Did you mean {meant}?") from None
            raise AttributeError(f"{module}.{name}: ration has no such name and looks for it in TensorFlow, which is not installed "
                                 "(pip install tensorflow)") from None
        try:
            return getattr(functools.reduce(getattr, path, tensorflow), name)
        except AttributeError:
            meant = _elsewhere(module, name)
            if meant is None:
                raise
            raise AttributeError(f"module {module!r} has no attribute {name!r}. Did you mean {meant}?") from None

    def names() -> List[str]:
        own = vars(sys.modules[module])
        tensorflow = sys.modules.get("tensorflow")
        theirs = [] if tensorflow is None else dir(functools.reduce(getattr, path, tensorflow))
        return sorted({*own, *theirs})

    return get, names
