"""Applies settings to TensorFlow: at once if it is imported, else when its import ends."""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
import types
from typing import Any, Callable, List, Optional, Sequence

_lock = threading.Lock()
_pending: List[Callable[[types.ModuleType], None]] = []


def when_imported(apply: Callable[[types.ModuleType], None]) -> None:
    """Calls `apply` with the module `tensorflow`: now, or once its import has ended. Keeps the order of the calls."""
    with _lock:
        tensorflow = sys.modules.get("tensorflow")
        if tensorflow is None or (_pending and _is_importing(tensorflow)):
            if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
                sys.meta_path.insert(0, _Finder())
            _pending.append(apply)
            return
    if _pending:  # TensorFlow was imported without the finder
        _apply_pending(tensorflow)
    apply(tensorflow)


def _is_importing(module: types.ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


def _apply_pending(tensorflow: types.ModuleType) -> None:
    with _lock:
        waiting = list(_pending)
        _pending.clear()
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    for apply in waiting:
        apply(tensorflow)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow where Python would, and adds the pending settings to the end of its import."""

    def __init__(self) -> None:
        self._asking = threading.local()

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None,
                  target: Optional[types.ModuleType] = None) -> Optional[importlib.machinery.ModuleSpec]:
        if name != "tensorflow" or getattr(self._asking, "now", False):
            return None
        self._asking.now = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.now = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """A loader that lets the loader that Python found run the module, and then applies the settings. Before the module
    runs, this loader puts the found loader in its own place."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[types.ModuleType]:
        return self._found.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._found
        module.__loader__ = self._found
        self._found.exec_module(module)
        _apply_pending(module)
