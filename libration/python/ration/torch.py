"""PyTorch on ration's pool."""
from __future__ import annotations

import ctypes
from typing import Any, Union

from . import _native
from .limits import limit


def use() -> Any:
    """Makes ration's pool PyTorch's allocator for CUDA. Call it before PyTorch allocates device memory.

    Returns:
        The allocator, for `torch.cuda.MemPool`.

    Raises:
        ImportError: PyTorch is not installed.
        RuntimeError: PyTorch has already allocated memory, or this PyTorch is built without CUDA.
    """
    import torch
    if torch.version.cuda is None:
        raise RuntimeError("This PyTorch is built without CUDA, so it has no allocator that ration.torch.use() could replace.")
    allocator = torch.cuda.memory.CUDAPluggableAllocator(_native.path, "ration_torch_alloc", "ration_torch_free")
    allocator.allocator().set_record_stream_fn(ctypes.cast(_native.library.ration_torch_record_stream, ctypes.c_void_p).value)
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as error:
        raise RuntimeError("PyTorch has already allocated GPU memory with its own allocator. Call ration.torch.use() before the first "
                           "tensor is on a GPU, or leave the call out: ration.limit('6GiB') also limits PyTorch's allocator.") from error
    return allocator


def set_per_process_memory_fraction(fraction: float, device: Union[int, None] = None) -> None:
    """Limits this process to a share (above 0, at most 1) of a device's total; can be called at any time."""
    limit(float(fraction), device)
