"""The frameworks that the program has started: the memory that each framework reports, and how it gives back its cache.

MemoryGuard, the reports and limit() use this module. Nothing here imports a framework, starts one, or makes a
CUDA context.
"""
from __future__ import annotations

import gc
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from . import _native
from .tf import config


class Memory(NamedTuple):
    """Bytes of one device, as its framework counts them; None for a figure that the framework does not report."""
    allocated: int                  # held by tensors
    peak: int                       # the most allocated since the peak was last reset
    reserved: Optional[int] = None  # taken from the device, for tensors and the cache
    limit: Optional[int] = None     # the most that the framework takes
    gpu: Optional[int] = None       # the number of the physical GPU


class Framework(NamedTuple):
    """One framework that has started."""
    name: str
    read: Callable[[], Dict[str, Memory]]                # by the framework's own name for the device
    reset_peaks: Optional[Callable[[], None]] = None     # None if the framework cannot
    release_cache: Optional[Callable[[], object]] = None  # None if the framework has no cache, or no call that releases it


def started() -> List[Framework]:
    """Returns the frameworks that are imported and have started, and ration's own pool."""
    return [framework for framework in (find() for find in (_ration, _pytorch, _tensorflow, _jax)) if framework is not None]


def memory() -> Dict[str, Memory]:
    """Returns the memory that all frameworks hold, by framework and device: `{'PyTorch cuda:0': Memory(…)}`."""
    return {f"{framework.name} {device}": told for framework in started() for device, told in framework.read().items()}


def reset_peaks() -> None:
    """Resets the peaks to the current use, in the frameworks that support this."""
    for framework in started():
        if framework.reset_peaks is not None:
            framework.reset_peaks()


def release_caches() -> None:
    """Makes every framework give its unused memory back to the device, as far as possible."""
    for framework in started():
        if framework.release_cache is not None:
            framework.release_cache()


def _ration() -> Optional[Framework]:
    if not _native.library.ration_is_initialized(None):
        return None
    experimental, devices = config.experimental, _logical_devices(config, config.pool_devices)

    def read() -> Dict[str, Memory]:
        result = {}
        for name, (gpu, _) in devices.items():
            told = experimental.pool_memory_info(name)
            result[_short(name)] = Memory(told["current"], told["peak"], told["held"], told["limit"], gpu)
        return result

    return Framework("ration", read, lambda: _each(experimental.reset_memory_stats, devices),
                     lambda: _each(experimental.trim, devices))


def _pytorch() -> Optional[Framework]:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if not hasattr(cuda, "is_initialized") or not cuda.is_initialized():
        return None
    # ration.torch.use() and other plugged-in allocators count for themselves.
    devices = range(0 if cuda.memory.get_allocator_backend() == "pluggable" else cuda.device_count())
    share = getattr(cuda, "get_per_process_memory_fraction", None)  # only newer releases have it

    def read() -> Dict[str, Memory]:
        result = {}
        for device in devices:
            told = cuda.memory_stats(device)
            allocated, peak, reserved = (told.get(f"{name}_bytes.all.{when}", 0) for name, when in (
                ("allocated", "current"), ("allocated", "peak"), ("reserved", "current")))
            limit = None if share is None else int(share(device) * cuda.get_device_properties(device).total_memory)
            result[f"cuda:{device}"] = Memory(allocated, peak, reserved, limit, device)
        return result

    return Framework("PyTorch", read, lambda: _each(cuda.reset_peak_memory_stats, devices), cuda.empty_cache)


def _tensorflow() -> Optional[Framework]:
    context = getattr(sys.modules.get("tensorflow.python.eager.context"), "_context", None)
    theirs = getattr(sys.modules.get("tensorflow"), "config", None)
    if theirs is None or not getattr(context, "_initialized", False):
        return None
    devices = _logical_devices(theirs, theirs.list_logical_devices)

    def read() -> Dict[str, Memory]:
        result = {}
        for name, (gpu, limit) in devices.items():
            told = theirs.experimental.get_memory_info(name)
            result[_short(name)] = Memory(told["current"], told["peak"], None, limit, gpu)
        return result

    return Framework("TensorFlow", read, lambda: _each(theirs.experimental.reset_memory_stats, devices), gc.collect)


# The time to wait for TensorFlow to give back regions, which it does within milliseconds or not at all.
_PATIENCE_SECONDS = 1.0


def collect_regions(told: Callable[[], Dict[str, int]], device: Optional[str] = None) -> None:
    """Makes TensorFlow give back the regions of device memory that hold no tensor, until `told()['used']` is within
    `told()['limit']`.

    TensorFlow gives regions back when no free chunk is large enough for a request. So this function requests larger and
    larger blocks, and frees each block at once. No block is larger than the room that the tensors leave within the
    limit. If a request still does not fit, TensorFlow gives the regions back. But then it repeats the request for 10 s
    before it raises an error. Therefore a separate thread makes the requests. This function returns in three cases: the use is
    within the limit, the largest block was requested, or a second has passed.

    Args:
        told: returns the current `used` and `limit`, in bytes.
        device: a logical device, such as '/GPU:1'; None for each.
    """
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or _tensorflow() is None:
        return
    devices = [each.name for each in tensorflow.config.list_logical_devices("GPU")] if device is None else [device]
    has_ended = threading.Event()
    is_abandoned = threading.Event()

    def request() -> None:
        try:
            for name in devices:
                size = 64 << 20
                while told()["used"] > told()["limit"] and not is_abandoned.is_set():
                    tensors = sum(tensorflow.config.experimental.get_memory_info(each)["current"] for each in devices)
                    if size > (told()["limit"] - tensors) * 7 // 8:
                        break
                    with tensorflow.device(name):
                        tensorflow.raw_ops.Empty(shape=[size >> 20, 1 << 20], dtype=tensorflow.uint8, init=False)
                    size = size * 5 // 4
        except tensorflow.errors.ResourceExhaustedError:
            pass  # TensorFlow has given back the regions that hold no tensor
        finally:
            has_ended.set()

    threading.Thread(target=request, name="ration-collect").start()  # not a daemon thread: Python waits for its end before Python exits
    last_moment = time.monotonic() + _PATIENCE_SECONDS
    while told()["used"] > told()["limit"] and time.monotonic() < last_moment:
        if has_ended.wait(0.005):
            break
    is_abandoned.set()


def _jax() -> Optional[Framework]:
    jax, bridge = sys.modules.get("jax"), sys.modules.get("jax._src.xla_bridge")
    has_started = getattr(bridge, "backends_are_initialized", None)
    if not hasattr(jax, "local_devices") or has_started is None or not has_started():
        return None
    devices = [device for device in jax.local_devices() if device.platform in ("gpu", "cuda")]

    def read() -> Dict[str, Memory]:
        result = {}
        for device in devices:
            told = device.memory_stats() or {}  # None with the allocator "platform", which counts nothing
            result[f"cuda:{device.id}"] = Memory(told.get("bytes_in_use", 0), told.get("peak_bytes_in_use", 0),
                                                 told.get("pool_bytes"), told.get("bytes_limit"), device.local_hardware_id)
        return result

    return Framework("JAX", read)


def _each(function: Callable[[Any], object], devices: Iterable[Any]) -> None:
    for device in devices:
        function(device)


def _short(name: str) -> str:
    return name.rsplit("/device:", 1)[-1]


def _logical_devices(theirs: Any, devices: Callable[[str], List[Any]]) -> Dict[str, Tuple[Optional[int], Optional[int]]]:
    """Returns, for each logical GPU of a `tf.config`, the number of its physical GPU and its configured limit in bytes."""
    names = [device.name for device in devices("GPU")]
    entries: List[Tuple[Optional[int], Optional[int]]] = []
    for gpu in theirs.get_visible_devices("GPU"):
        for entry in theirs.get_logical_device_configuration(gpu) or [None]:
            limit = None if entry is None or entry.memory_limit is None else int(entry.memory_limit * (1 << 20))
            entries.append((int(gpu.name.rsplit(":", 1)[1]), limit))
    # Configured ordinals change the order, and a configuration that came too late was ignored, so there may be more or
    # fewer entries than devices.
    return dict(zip(names, entries if len(entries) == len(names) else [(None, None)] * len(names)))
