"""GPU-memory limits that a program sets for itself.

    import ration                                             # before code that uses the GPU: this loads the guard
    ration.limit('6GiB')                                      # at any time; limits PyTorch, TensorFlow, JAX, everything
    ration.setup_gpu(config_type='limit', limit_mb=4096)      # False on a machine without a GPU
    with ration.MemoryGuard('2GiB'):                          # raises if the block allocates more
        ...

`ration.tf.config` has TensorFlow's device configuration. `ration.torch.use()` makes PyTorch use ration's pool, and
`ration.jax.limit()` limits JAX. `ration.on_pressure()` calls a function when memory is short. For pytest, there is the
marker `gpu_limit_memory`.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

from . import activation

activation.at_import()

from . import tf  # noqa: E402  (after the guard is in front of the driver)
from . import _native
from ._native import MemoryLimitExceeded
from .activation import activate, is_governed, reexec
from .guard import MemoryGuard
from .limits import Schedule, find_executable_batch_size, limit, mark, pinned, share, tag, workload
from .pressure import PressureHandle, on_pressure
from .profiles import profile
from .recording import record
from .report import get_memory_details, log_memory_usage, memory_map
from .setup_gpu import setup_gpu
from .tf import config, sessions

sessions.install()

__version__ = _native.library.ration_version().decode()
__all__ = ["MemoryGuard", "MemoryLimitExceeded", "PressureHandle", "Schedule", "activate", "config",
           "find_executable_batch_size", "get_memory_details", "is_governed", "limit", "load_ipython_extension",
           "log_memory_usage", "mark", "memory_map", "on_pressure", "pinned", "profile", "record", "reexec", "setup_gpu", "share", "tag", "tf", "workload"]

# Loaded when somebody names them, because they import frameworks.
_BY_NAME = ("jax", "keras", "ray", "testing", "torch")
if TYPE_CHECKING:
    from . import jax, keras, ray, testing, torch  # noqa: F401
else:  # a checker of types would accept every name
    def __getattr__(name: str) -> Any:
        if name in _BY_NAME:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted([*__all__, *_BY_NAME, "__version__"])


def load_ipython_extension(shell: object) -> None:
    """Adds the magics `%ration` and `%%ration_guard`; IPython calls this function for `%load_ext ration`."""
    from . import jupyter
    jupyter.register(shell)
