"""Limits for the whole process, by epoch, and batch sizes that fit."""
from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import _native
from ._native import MemoryLimitExceeded
from .tf import config

Size = Union[int, float, str]


class _Limit:
    """What limit() returns: inside `with`, the former limits come back at the end."""

    def __init__(self, former: List[Tuple[config.PhysicalDevice, Optional[int]]]) -> None:
        self._former = former

    def __enter__(self) -> "_Limit":
        return self

    def __exit__(self, *_: object) -> None:
        for gpu, before in self._former:
            config.experimental.set_memory_limit(gpu, None if before is None else f"{before >> 10}KiB")


def limit(size: Size, device: Optional[int] = None) -> _Limit:
    """The most that this process takes, from now on; inside `with`, for the block.

    Args:
        size: `'6GiB'`, `'50%'`, `0.5` (a share), or MiB.
        device: the number of a GPU; None for all visible ones.

    Raises:
        ValueError: no such device, or no such size.
    """
    gpus = config.list_physical_devices("GPU") if device is not None else config.get_visible_devices("GPU")
    if device is not None:
        if not 0 <= device < len(gpus):
            raise ValueError(f"there is no GPU {device}; this machine has {len(gpus)}")
        gpus = [gpus[device]]
    former = [(gpu, config.experimental.get_memory_limit(gpu)) for gpu in gpus]
    for gpu in gpus:
        config.experimental.set_memory_limit(gpu, size)
    return _Limit(former)


_tag = threading.local()


@contextlib.contextmanager
def tag(name: str) -> Iterator[None]:
    """What this thread takes of ration's pool inside `with` is attributed to `name`.

    Told by `ration.memory_map()['tags']` and by the text of a denial. Tags nest.
    """
    former = getattr(_tag, "name", "")
    _native.call("set_tag", _native.text(name))
    _tag.name = name
    try:
        yield
    finally:
        _tag.name = former
        _native.call("set_tag", former.encode())


class Schedule:
    """Limits that change with the epoch, as for the two halves of a GAN.

        schedule = ration.Schedule({'generator': [(0, '40%'), (11, '50%')], 'discriminator': [(0, '60%'), (11, '50%')]},
                                   devices={'generator': gpus[0], 'discriminator': gpus[1]})
        schedule.at(epoch)

    Args:
        steps: for each name, pairs (first epoch, limit) in rising order of epochs.
        devices: the physical device of each name; a name may also be a physical device's own. Names without a device
            are only told, not applied.

    Raises:
        ValueError: no steps, epochs that do not rise, or none from epoch 0 on.
    """

    def __init__(self, steps: Mapping[str, Sequence[Tuple[int, Size]]],
                 devices: Optional[Mapping[str, config.PhysicalDevice]] = None) -> None:
        known = {gpu.name: gpu for gpu in config.list_physical_devices("GPU")}
        self._devices = {**{name: known[name] for name in steps if name in known}, **(devices or {})}
        self._steps: Dict[str, List[Tuple[int, Size]]] = {name: list(pairs) for name, pairs in steps.items()}
        self._applied: Dict[str, Size] = {}
        for name, pairs in self._steps.items():
            epochs = [epoch for epoch, _ in pairs]
            if not pairs or epochs[0] != 0 or any(left >= right for left, right in zip(epochs, epochs[1:])):
                raise ValueError(f"the steps of '{name}' begin at epoch 0 and rise, unlike {epochs}")

    def at(self, epoch: int) -> Dict[str, Size]:
        """Applies the limits of that epoch and returns them by name.

        Raises:
            ValueError: an epoch below 0.
        """
        if epoch < 0:
            raise ValueError(f"epochs begin at 0, unlike {epoch}")
        wanted = {name: [size for first, size in pairs if first <= epoch][-1] for name, pairs in self._steps.items()}
        changed = [name for name in wanted if name in self._devices and self._applied.get(name) != wanted[name]]
        for name in changed:
            config.experimental.set_memory_limit(self._devices[name], wanted[name])
            self._applied[name] = wanted[name]
        return wanted


Function = TypeVar("Function", bound=Callable[..., Any])


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryLimitExceeded) or type(error).__name__ in (
        "OutOfMemoryError", "ResourceExhaustedError") or "RESOURCE_EXHAUSTED" in str(error) or \
        "CUDA out of memory" in str(error)


def find_executable_batch_size(function: Optional[Function] = None, *, start: int = 128) -> Any:
    """A decorator: calls the function with `batch_size`, half as large each time it runs out of device memory.

    Raises:
        MemoryError: not even a batch of 1 fits; the last denial is its cause.
    """
    def decorate(wrapped: Function) -> Callable[..., Any]:
        @functools.wraps(wrapped)
        def attempt(*arguments: Any, **named: Any) -> Any:
            batch_size = start
            while True:
                try:
                    return wrapped(batch_size, *arguments, **named)
                except Exception as error:  # noqa: BLE001  (whatever a framework raises)
                    if not _is_out_of_memory(error):
                        raise
                    if batch_size <= 1:
                        raise MemoryError(f"{wrapped.__name__}() does not fit with a batch of 1") from error
                    batch_size //= 2
        return attempt
    return decorate if function is None else decorate(function)
