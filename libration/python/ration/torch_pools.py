"""Pools of PyTorch's allocator that belong to one share of a program."""
from __future__ import annotations

import contextlib
import sys
from typing import Any, Dict, Iterator, Optional


class Pools:
    """The pools of a share, one on each GPU. PyTorch places the tensors of a pool only in segments of this pool.

    Args:
        device: the number of a GPU; None for each GPU that PyTorch sees.
    """

    def __init__(self, device: Optional[int]) -> None:
        self._device = device
        self._of_device: Dict[int, Any] = {}

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        """In the `with` block, the tensors of this thread come from these pools. If this thread starts a backward pass, the
        tensors of this pass come from them, too.

        Raises:
            RuntimeError: PyTorch is not imported, or is older than 2.5 and has no pools.
        """
        torch = sys.modules.get("torch")
        if not hasattr(getattr(torch, "cuda", None), "use_mem_pool"):
            raise RuntimeError("own_pool=True needs PyTorch 2.5 or newer, imported before the share is entered.")
        torch.cuda.init()
        with contextlib.ExitStack() as used:
            for device in range(torch.cuda.device_count()) if self._device is None else [self._device]:
                if device not in self._of_device:
                    self._of_device[device] = torch.cuda.MemPool()
                used.enter_context(torch.cuda.use_mem_pool(self._of_device[device], device))
            # Only this thread enters the pools; other threads of a backward pass would take memory from PyTorch's common pool.
            used.enter_context(torch.autograd.set_multithreading_enabled(False))
            yield

    def renew(self) -> None:
        """Drops the pools, so that PyTorch gives back their unused memory when it next empties its cache."""
        self._of_device.clear()
