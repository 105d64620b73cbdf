"""One framework: the total it sees, how it is refused, how fast it is. `frameworks.py NAME LIMIT_BYTES` (0 = no limit); one closing line.
`frameworks.py ratios PLAIN HELD`: of two such lines, how fast it is under the limit beside how fast it is without."""
import re
import sys
import time


def rate(step, synchronise, seconds=5):
    for _ in range(3):
        step()
    synchronise()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(10):
            step()
        synchronise()
        count += 10
    return count / (time.perf_counter() - start)


def torch(limit):
    import torch
    total = torch.cuda.get_device_properties(0).total_memory
    a = torch.randn(4096, 4096, device="cuda")
    products = rate(lambda: a @ a, torch.cuda.synchronize)
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    optimiser = torch.optim.Adam(model.parameters())
    x = torch.randn(512, 1024, device="cuda")

    def step():
        optimiser.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimiser.step()

    steps = rate(step, torch.cuda.synchronize)

    def churn():  # through PyTorch's allocator to the driver, and back
        blocks = [torch.empty((number % 7 + 1) << 22, dtype=torch.uint8, device="cuda") for number in range(32)]
        del blocks
        torch.cuda.empty_cache()

    churns = rate(churn, torch.cuda.synchronize)
    refusal = "not tried"
    if limit:
        try:
            torch.empty(limit + (1 << 29), dtype=torch.uint8, device="cuda")
            refusal = "NOT REFUSED"
        except torch.cuda.OutOfMemoryError as error:
            refusal = type(error).__name__
    return total, {"products": products, "training steps": steps, "allocation rounds": churns}, refusal


def jax(limit):
    import jax
    import jax.numpy as np
    total = (jax.devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    a = jax.random.normal(jax.random.key(0), (4096, 4096))
    product = jax.jit(lambda x: x @ x)
    out = [product(a)]

    def step():
        out[0] = product(a)

    products = rate(step, lambda: out[0].block_until_ready())
    refusal = "not tried"
    if limit:
        try:
            np.zeros(limit + (1 << 29), dtype=np.uint8).block_until_ready()
            refusal = "NOT REFUSED"
        except Exception as error:  # its class has moved between versions; the text has not
            refusal = "RESOURCE_EXHAUSTED" if "RESOURCE_EXHAUSTED" in str(error) else f"{type(error).__name__}: {error}"[:60]
    return total, {"products": products}, refusal


def cupy(limit):
    import cupy
    total = cupy.cuda.runtime.memGetInfo()[1]
    a = cupy.random.rand(4096, 4096, dtype=cupy.float32)
    products = rate(lambda: a @ a, cupy.cuda.Device().synchronize)
    refusal = "not tried"
    if limit:
        try:
            cupy.empty(limit + (1 << 29), dtype=cupy.uint8)
            refusal = "NOT REFUSED"
        except cupy.cuda.memory.OutOfMemoryError as error:
            refusal = type(error).__name__
    return total, {"products": products}, refusal


def ratios(plain, held):
    plain, held = (dict(reversed(pair) for pair in re.findall(r"([\d.]+) ([a-z ]+)/s", line)) for line in (plain, held))
    found = {what: float(held[what]) / float(plain[what]) for what in plain if what in held}
    good = bool(found) and min(found.values()) >= 0.998
    return f"{'ok' if good else 'slower'}: " + ", ".join(f"{what} {ratio:.4f}" for what, ratio in found.items())


def main(name, limit):
    total, rates, refusal = {"torch": torch, "jax": jax, "cupy": cupy}[name](limit)
    # JAX says what its allocator may use, a part of what the device has.
    sees = not limit or (total <= limit if name == "jax" else total == limit)
    good = sees and refusal != "NOT REFUSED"
    return f"{'ok' if good else 'wrong'}: total {total / 2**30:.2f} GiB, " + "".join(f"{count:.1f} {what}/s, " for what, count in rates.items()) + f"refused by {refusal}"


print(ratios(*sys.argv[2:]) if sys.argv[1] == "ratios" else main(sys.argv[1], int(sys.argv[2])))
