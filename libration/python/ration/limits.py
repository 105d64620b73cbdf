"""Limits for the process, its parts and epochs, and batch sizes that fit."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, overload

from . import _native, activation, sizes, torch_pools
from ._native import MemoryLimitExceeded
from .sizes import Size, with_unit
from .tf import config


class Limit:
    """The result of limit(). In a `with` statement, it restores the former limits at the end of the block."""

    def __init__(self, former: Dict[int, int], former_host: Optional[int] = None) -> None:
        self._former, self._former_host = former, former_host

    def __repr__(self) -> str:
        parts = [f"{_told(_limit_of(gpu))} on GPU {gpu} (before: {_told(size)})" for gpu, size in self._former.items()]
        if self._former_host is not None:
            parts.append(f"{_told(_host_limit())} of pinned host memory (before: {_told(self._former_host)})")
        return f"<ration.limit {', '.join(parts)}>" if parts else "<ration.limit: no GPU, nothing is limited>"

    def __enter__(self) -> "Limit":
        return self

    def __exit__(self, *_: object) -> None:
        for gpu, size in self._former.items():
            _restore(size, "limit", None, gpu)
        if self._former_host is not None:
            _restore(self._former_host, "limit_host")


def _restore(size: int, function: str, *arguments: Any) -> None:
    """Sets a former limit again. If the workload may no longer have so much, sets the most that it may have now."""
    try:
        _native.call(function, *arguments, _exact(size))
    except ValueError:
        _native.call(function, *arguments, b"100%")


def _told(size: int) -> str:
    return sizes.text(size) if size else "none"


def _exact(size: int) -> bytes:
    return f"{size}B".encode() if size else b"max"


def _info(function: str, *arguments: Any) -> Dict[str, int]:
    raw = _native.WorkloadInfo(size=ctypes.sizeof(_native.WorkloadInfo))
    _native.call(function, *arguments, ctypes.byref(raw))
    return {name: getattr(raw, name) for name, _ in raw._fields_[2:]}


def workload(device: int = 0) -> Dict[str, int]:
    """Returns the memory of this process's workload on a GPU, summed over all its processes, in bytes: `used`, `peak`,
    `limit`, `total`.

    Raises:
        ValueError: this process is not governed, or has no such GPU.
    """
    return _info("get_workload_info", _native.gpu(device))


class share:  # noqa: N801  (users call it as a function, and use it with `with`)
    """A part of this program with a limit of its own inside the workload's limit, such as one model of a GAN.

        generator = ration.share('generator', '40%')
        with generator:
            ...                                  # memory taken here is charged to the share until it is freed
        generator.limit('50%')                   # at any time
        generator.info()                         # used, peak, limit, total

    A share limits the segments that a framework takes from the device. **It does not limit tensors that fit into the
    framework's cache**: PyTorch and JAX put a tensor of one share into a segment that another share took and no longer
    uses. These settings limit tensors:

    - PyTorch: `own_pool=True`. The tensors of the share, including those of `backward()`, come from a pool of its own.
      No other share uses the cache of this pool. `trim()` gives the cache back to the device.
    - PyTorch: `ration.torch.use()`. Each block is charged to the share that allocated it.
    - TensorFlow: a logical device for each share, with its own limit.

    Some threads have entered no share, such as the helper threads of a framework. Their memory is charged to the share
    that was entered last.

    Args:
        name: 1 to 63 bytes; equal names are one share.
        size: the limit: `'40%'` (of the workload's current limit) or `'2GiB'`; None leaves the limit unchanged.
        device: the number of a GPU; None for each.
        own_pool: True to allocate PyTorch's tensors of this share from a pool of its own.

    Raises:
        ValueError: an invalid size, or this process is not governed.
        RuntimeError: `own_pool` is True, and PyTorch is not imported or has no `torch.cuda.MemPool`. Raised by `with`.
    """

    def __init__(self, name: str, size: Optional[Size] = None, device: Optional[int] = None, own_pool: bool = False) -> None:
        activation.require()
        self.name = name
        self._name = _native.text(name)
        self._entered = threading.local()
        self.info(max(_native.gpu(device, or_each=True), 0))
        self._pools = torch_pools.Pools(device) if own_pool else None
        if size is not None:
            self.limit(size, device)

    def __repr__(self) -> str:
        told = [f"{sizes.text(now['used'])} of {sizes.text(now['limit'])} on GPU {gpu}" for gpu in _numbers() for now in [self.info(gpu)]]
        return f"<ration.share {self.name!r}: {', '.join(told)}>"

    def limit(self, size: Size, device: Optional[int] = None) -> None:
        """Sets the limit. A share that holds more keeps its memory and gets no more; trim() releases cached memory."""
        number = _native.gpu(device, or_each=True)
        _native.call("limit_share", self._name, number, _native.text(with_unit(size, "share")))

    def trim(self, logical_device: Optional[str] = None, device: int = 0) -> None:
        """If this share holds more than its limit, asks the frameworks of this process to release their caches. Always
        empties the share's own pool.

        Args:
            logical_device: TensorFlow's device of this share, such as '/GPU:1'. Its unused memory is released, too.
            device: the number of the GPU.
        """
        def told() -> Dict[str, int]:
            return self.info(device)

        from . import frameworks
        if self._pools is not None:
            self._pools.renew()
        if self._pools is not None or told()["used"] > told()["limit"]:
            frameworks.release_caches()
        if logical_device is not None:
            with self:
                frameworks.collect_regions(told, logical_device)

    def info(self, device: int = 0) -> Dict[str, int]:
        """Returns the bytes on a GPU: `used`, `peak`, `limit`, and `total`, the workload's limit."""
        return _info("get_share_info", self._name, _native.gpu(device))

    def __enter__(self) -> "share":
        with contextlib.ExitStack() as entered:
            if self._pools is not None:
                entered.enter_context(self._pools.use())
            former = _native.FormerShare()
            _native.call("enter_share", self._name, ctypes.byref(former))
            entered.callback(_native.call, "leave_share", ctypes.byref(former))
            self._entered.__dict__.setdefault("shares", []).append(entered.pop_all())
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.shares.pop().close()


def pinned() -> Dict[str, int]:
    """Returns the pinned host memory of this process's workload, summed over all its processes, in bytes: `used`,
    `peak`, `limit`, `total`.

    Raises:
        ValueError: this process is not governed, or its book counts no pinned memory.
    """
    return _info("get_host_info")


def limit(size: Optional[Size] = None, device: Optional[int] = None, host: Optional[Size] = None) -> Limit:
    """Limits this process's workload from now on. In a `with` statement, the limit ends with the block.

        ration.limit('6GiB')                     # of each GPU, from now on
        with ration.limit('50%', device=0):      # for a block; then the former limit is back
            ...

    Limits everything in the process: frameworks, libraries, ration's pool. Can be called at any time. If the workload
    holds more than a lowered limit, it keeps its memory and gets no more. In this case, ration asks the frameworks of
    this process to release their caches.

    Args:
        size: the limit of GPU memory: `'6GiB'`, `'512MiB'` or `'8GB'` (10^9). `'50%'` and `0.5` are a share of the
            memory that the workload may have; `'max-1GiB'` is all of this memory except 1 GiB. `'max'` removes the limit.
            `'50%free'` means `'50%'` here. A number of at least 512 means MiB; the call then warns. A smaller
            number above 1, or a smaller `int`, raises, because it might mean GiB. None leaves the limit unchanged.
        device: the number of a GPU, as the driver counts GPUs under CUDA_VISIBLE_DEVICES; None for each GPU.
        host: the limit of pinned host memory, which belongs to no GPU, in the same forms. `'50%'` is half of the host limit
            that was set from outside. If no such limit was set, `'50%'` is half of the machine's memory.

    Returns:
        A `Limit`. Its `repr()` names the new limits and the former limits. A `with` statement restores the former limits
        at the end of its block. On a machine without a GPU, the call limits nothing, and the `repr()` says so.

    Raises:
        ValueError: an unknown device, an invalid size, more than `ration run` gave the workload, or neither `size` nor `host`.
        RuntimeError: the GPU's driver was loaded before ration, so the limit would have no effect.
    """
    if size is None and host is None:
        raise ValueError("limit() needs a size, or a limit of pinned host memory: host='8GiB'")
    activation.require()
    number = _native.gpu(device, or_each=True)
    numbers = [] if size is None else _numbers() if device is None else [number]
    former = Limit({each: _limit_of(each) for each in numbers}, None if host is None else _host_limit())
    try:
        if host is not None:
            _native.call("limit_host", _native.text(with_unit(host, "limit")))
        if size is not None:
            _native.call("limit", None, number, _native.text(with_unit(size, "limit")))
    except Exception:
        former.__exit__()
        raise
    release_caches(numbers)
    return former


def _host_limit() -> int:
    limit_ = ctypes.c_uint64()
    _native.call("get_host_limit", ctypes.byref(limit_))
    return limit_.value


def _limit_of(gpu: int) -> int:
    limit_ = ctypes.c_uint64()
    _native.call("get_limit", None, gpu, ctypes.byref(limit_))
    return limit_.value


def _numbers() -> List[int]:
    """Returns the numbers of the GPUs that are known without the driver."""
    numbers: List[int] = []
    try:
        while True:
            _limit_of(len(numbers))
            numbers.append(len(numbers))
    except ValueError:
        return numbers


def release_caches(gpus: Sequence[int]) -> None:
    """Asks the frameworks of this process to release their caches on GPUs where the workload holds more than its limit."""
    from . import frameworks
    for gpu in gpus:
        try:
            over = _is_over(gpu)
        except ValueError:  # not governed
            return
        if over:
            frameworks.release_caches()
            frameworks.collect_regions(functools.partial(workload, gpu))


def _is_over(gpu: int) -> bool:
    now = workload(gpu)
    return now["used"] > now["limit"]


_tag = threading.local()


@contextlib.contextmanager
def tag(name: str) -> Iterator[None]:
    """Gives the tag `name` to the memory that this thread takes from ration's pool inside the `with` block.

    `ration.memory_map()['tags']` and the text of a denial show the use by tag. Tags can be nested.
    """
    former = getattr(_tag, "name", "")
    _native.call("set_tag", _native.text(name))
    _tag.name = name
    try:
        yield
    finally:
        _tag.name = former
        _native.call("set_tag", former.encode())


def mark(text: str) -> None:
    """Puts a text, such as `epoch 3`, into the recording of this process at this moment.

    Does nothing in a process that `ration run --record` does not record.
    """
    _native.call("mark", _native.text(text))


class Schedule:
    """Limits that change with the epoch, for example for the two models of a GAN.

        schedule = ration.Schedule({'generator': [(0, '40%'), (10, '50%')], 'discriminator': [(0, '60%'), (10, '50%')]})
        for epoch in range(20):
            schedule.at(epoch)
            with ration.share('generator'): ...

    Args:
        steps: for each name, pairs (first epoch, limit) in rising order of epochs. A name in `devices`, or the name of a
            physical device, sets the limit of this device. Any other name is the name of a share.
        devices: physical devices, by the names that `steps` uses for these devices.

    Raises:
        ValueError: a name has no steps, its epochs do not rise, or the first epoch is not 0.
    """

    def __init__(self, steps: Mapping[str, Sequence[Tuple[int, Size]]],
                 devices: Optional[Mapping[str, config.PhysicalDevice]] = None) -> None:
        known = {name: config.PhysicalDevice(name, "GPU") for name in steps if name.startswith("/physical_device:GPU:")}
        self._devices = {**known, **(devices or {})}
        self._steps: Dict[str, List[Tuple[int, Size]]] = {name: list(pairs) for name, pairs in steps.items()}
        self._applied: Dict[str, Size] = {}
        for name, pairs in self._steps.items():
            epochs = [epoch for epoch, _ in pairs]
            if not pairs or epochs[0] != 0 or any(left >= right for left, right in zip(epochs, epochs[1:])):
                raise ValueError(f"the epochs of '{name}' must begin at 0 and rise, but are {epochs}")

    def __repr__(self) -> str:
        told = (f"{name}: " + ", ".join(f"{size} from epoch {epoch}" for epoch, size in pairs) for name, pairs in self._steps.items())
        return f"<ration.Schedule {'; '.join(told)}>"

    def at(self, epoch: int) -> Dict[str, Size]:
        """Applies the limits of the epoch and returns them by name.

        Raises:
            ValueError: the epoch is below 0.
        """
        if epoch < 0:
            raise ValueError(f"epochs begin at 0, so there is no epoch {epoch}")
        wanted = {name: [size for first, size in pairs if first <= epoch][-1] for name, pairs in self._steps.items()}
        for name, size in wanted.items():
            if self._applied.get(name) == size:
                continue
            if name in self._devices:
                config.experimental.set_memory_limit(self._devices[name], size)
            else:
                share(name, size)
            self._applied[name] = size
        return wanted


Result = TypeVar("Result")


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryLimitExceeded) or type(error).__name__ in (
        "OutOfMemoryError", "ResourceExhaustedError") or "RESOURCE_EXHAUSTED" in str(error) or \
        "CUDA out of memory" in str(error)


@overload
def find_executable_batch_size(function: Callable[..., Result], *, start: int = ...) -> Callable[..., Result]: ...
@overload
def find_executable_batch_size(function: None = ..., *, start: int = ...) -> Callable[[Callable[..., Result]], Callable[..., Result]]: ...
def find_executable_batch_size(function: Optional[Callable[..., Any]] = None, *, start: int = 128) -> Any:
    """Decorates a function that has an argument `batch_size`. Halves this argument each time the function runs out of
    device memory.

    Raises:
        MemoryError: a batch of 1 does not fit; the last denial is the cause of the error.
    """
    def decorate(wrapped: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(wrapped)
        def attempt(*arguments: Any, **named: Any) -> Any:
            batch_size = start
            while True:
                try:
                    return wrapped(batch_size, *arguments, **named)
                except Exception as error:  # noqa: BLE001  (frameworks raise classes of their own)
                    if not _is_out_of_memory(error):
                        raise
                    if batch_size <= 1:
                        raise MemoryError(f"{wrapped.__name__}() does not fit with a batch of 1") from error
                    batch_size //= 2
        return attempt
    return decorate if function is None else decorate(function)
