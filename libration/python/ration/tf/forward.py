"""Passes on to the installed TensorFlow the names that a module of `ration.tf` does not have.

TensorFlow is imported when such a name is first asked for, not with ration.
"""
from __future__ import annotations

import functools
import importlib
import sys
from typing import Any, Callable, List, Tuple


def to_tensorflow(module: str) -> Tuple[Callable[[str], Any], Callable[[], List[str]]]:
    """Returns `__getattr__` and `__dir__` of a module such as `ration.tf.config`: what it lacks is `tensorflow.config`'s."""
    path = module.split(".")[2:]

    def get(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            tensorflow = importlib.import_module("tensorflow")
        except ModuleNotFoundError as problem:
            if problem.name != "tensorflow":
                raise
            raise AttributeError(f"{module}.{name}: ration has no such name, and passes it on to TensorFlow, which is not installed "
                                 "(pip install tensorflow)") from None
        return getattr(functools.reduce(getattr, path, tensorflow), name)

    def names() -> List[str]:
        own = vars(sys.modules[module])
        tensorflow = sys.modules.get("tensorflow")
        theirs = [] if tensorflow is None else dir(functools.reduce(getattr, path, tensorflow))
        return sorted({*own, *theirs})

    return get, names
