"""Forwards names that a module of `ration.tf` lacks to the installed TensorFlow.

The first use of such a name imports TensorFlow; importing ration does not.
"""
from __future__ import annotations

import functools
import importlib
import sys
from typing import Any, Callable, List, Tuple


# The only names of TensorFlow with an underscore that programs ask for.
_VERSIONS = ("__version__", "__git_version__", "__compiler_version__")


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
            raise AttributeError(f"{module}.{name}: ration has no such name and looks for it in TensorFlow, which is not installed "
                                 "(pip install tensorflow)") from None
        return getattr(functools.reduce(getattr, path, tensorflow), name)

    def names() -> List[str]:
        own = vars(sys.modules[module])
        tensorflow = sys.modules.get("tensorflow")
        theirs = [] if tensorflow is None else dir(functools.reduce(getattr, path, tensorflow))
        return sorted({*own, *theirs})

    return get, names
