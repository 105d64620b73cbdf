"""A guard around an augmentation step that forgets to give its buffers back."""
import ctypes

import ration
from ration import _native

ration.setup_gpu("growth")
leaked = []


def augment() -> None:
    address = ctypes.c_void_p()
    _native.call("allocate", None, 0, ctypes.c_size_t(300 << 20), ctypes.c_size_t(0), None, ctypes.byref(address))
    leaked.append(address)  # never given back


try:
    for step in range(10):
        with ration.MemoryGuard("256MiB", name="augment"):
            augment()
except ration.MemoryLimitExceeded as error:
    print("caught:", error)
else:
    raise SystemExit("the leak was not caught")
