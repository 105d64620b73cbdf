"""ration's pool on the device at hand: `pool.py pool`, or `pool.py torch ours|own` for a training loop; one closing line."""
import ctypes
import sys
import time

import ration
from ration import _native

MIB = 1 << 20


def take(gpu, size):
    address = ctypes.c_void_p()
    _native.call("allocate", None, gpu, ctypes.c_size_t(size), ctypes.c_size_t(0), None, ctypes.byref(address))
    return address


def give(gpu, address):
    _native.call("deallocate", None, gpu, address, None)


def info(gpu):
    return ration.config.experimental.get_memory_info(f"GPU:{gpu}")


def pool():
    gpu = ration.config.list_physical_devices("GPU")[0]
    ration.config.set_visible_devices(gpu, "GPU")
    half = ration.config.LogicalDeviceConfiguration(memory_limit=2048)
    ration.config.set_logical_device_configuration(gpu, [half, half])
    assert len(ration.config.list_logical_devices("GPU")) == 2
    held = take(0, 1200 * MIB)
    try:
        take(0, 1200 * MIB)
        return "FAIL: a logical device took more than its limit"
    except ration.MemoryLimitExceeded:
        pass
    give(1, take(1, 1200 * MIB))
    before = info(1)["held"]
    # Shared out: 1 GiB each, of which the context has its part.
    ration.config.experimental.set_memory_limit(gpu, "2GiB")
    after = info(1)["held"]
    give(0, held)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < 1:
        for _ in range(1000):
            give(0, take(0, MIB))
        count += 1000
    pair = (time.perf_counter() - start) / count * 1e9
    trimmed = ration.config.experimental.trim("GPU:0")
    if info(0)["limit"] != 1024 * MIB:
        return f"FAIL: the limit is {info(0)['limit']}"
    return (f"ok: two logical devices, refused beyond; limit lowered: held {before >> 20} -> {after >> 20} MiB; "
            f"pair {pair:.0f} ns through Python; trim gave {trimmed >> 20} MiB back")


def torch(whose):
    import torch
    if whose == "ours":
        import ration.torch
        ration.torch.use()
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    optimiser = torch.optim.Adam(model.parameters())
    x = torch.randn(1024, 2048, device="cuda")

    def step():
        optimiser.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimiser.step()

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < 8:
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        count += 10
    rate = count / (time.perf_counter() - start)
    if whose == "ours":
        ration.config.experimental.set_memory_limit(ration.config.list_physical_devices("GPU")[0], "4GiB")  # while training
        try:
            torch.empty(5 << 30, dtype=torch.uint8, device="cuda")
            return "FAIL: more than the limit was granted"
        except RuntimeError as error:
            if "CUDA out of memory" not in str(error):
                return f"FAIL: {error}"
        step()
        torch.cuda.synchronize()
        return f"ok: {rate:.1f} steps/s, {info(0)['peak_held'] >> 20} MiB taken"
    return f"ok: {rate:.1f} steps/s, {torch.cuda.max_memory_reserved() >> 20} MiB taken"


if __name__ == "__main__":
    print(pool() if sys.argv[1] == "pool" else torch(sys.argv[2]))
