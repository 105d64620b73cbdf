"""Imports of TensorFlow's modules under ration's name: `from ration.tf.keras.layers import Dense`.

Python asks a finder for each part of such a name. Names that ration itself has are found as usual. Every other name is
TensorFlow's module of that name, the same object, imported when the name is requested.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Optional, Sequence

_ROOT = __package__ or "ration.tf"


def install() -> None:
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _theirs(name: str) -> Optional[types.ModuleType]:
    """Returns the module of TensorFlow for which `ration.tf.…` stands; None if TensorFlow has no such module."""
    module: object = importlib.import_module("tensorflow")
    path = name[len(_ROOT) + 1:].split(".")
    for part in path:
        module = getattr(module, part, None)
    if isinstance(module, types.ModuleType):
        return module
    try:  # tensorflow.python.framework, for example, is no attribute before it is imported
        return importlib.import_module(".".join(["tensorflow", *path]))
    except ModuleNotFoundError as problem:
        if not str(problem.name).startswith("tensorflow."):
            raise
        return None


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes before Python's own finders, which would load a file of TensorFlow a second time under ration's name."""

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None,
                  target: Optional[types.ModuleType] = None) -> Optional[importlib.machinery.ModuleSpec]:
        if not name.startswith(_ROOT + "."):
            return None
        parent = sys.modules[name.rpartition(".")[0]]
        if parent.__name__.startswith(_ROOT):
            own = importlib.machinery.PathFinder.find_spec(name, path)
            if own is not None:
                return own
        if importlib.util.find_spec("tensorflow") is None:
            raise ModuleNotFoundError(f"{name}: ration has no such module and looks for it in TensorFlow, which is not installed "
                                      "(pip install tensorflow)", name=name)
        return None if _theirs(name) is None else importlib.util.spec_from_loader(name, self)

    def exec_module(self, module: types.ModuleType) -> None:
        theirs = _theirs(module.__name__)
        assert theirs is not None
        sys.modules[module.__name__] = theirs  # the import statement returns the module that stands here
