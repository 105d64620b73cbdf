"""Resets, small pieces, pools, graphs, managed memory: what each takes of the device."""
import ctypes
import os
import re

from . import GIB, MIB, Finding, experiment, mib, simulated
from .actor import Actor, settled
from .driver import GRAPH_RESERVED, OUT_OF_MEMORY, POOL_RESERVED, AllocationNode, Gpu, Location, Nvml, PoolProperties, piece

# Writes where nothing is.
ILLEGAL = b""".visible .entry write_nowhere()
{
  .reg .b64 %a;
  .reg .b32 %v;
  mov.u64 %a, 16;
  mov.u32 %v, 1;
  st.global.u32 [%a], %v;
  ret;
}
"""


def run_illegal_kernel(gpu):
    gpu.launch(gpu.function(gpu.load(ILLEGAL), "write_nowhere"))


@experiment(6, "a primary context after its reset", "stays active; its memory is back on the device and off the book", 60)
def reset():
    nvml, size = Nvml(), piece(2 * GIB)
    with Actor() as bare:
        before = nvml.used()
        bare.open()
        context = nvml.of(bare.process.pid) or settled(nvml.used) - before
        bare.ask("allocate", size)
        held = settled(nvml.used) - before
        bare.ask("reset")
        active, left = bare.ask("active"), settled(nvml.used) - before
        said = [f"context {mib(context)}, active {'yes' if active else 'no'}, device {mib(held)} -> {mib(left)}"]
        returned = left < size
        bare.ask("forget")
    with Actor() as faulty:
        faulty.open().ask("allocate", size)
        if simulated():
            said.append("after an illegal address: n/a (the simulator runs no kernels)")
        else:
            error = faulty.error("memory.run_illegal_kernel")
            said.append(f"after an illegal address (error {error}): reset answers {faulty.error('reset')}, active {'yes' if faulty.ask('active') else 'no'}")
    # 60 % of what a limit leaves, reset, and as much again.
    with Actor(limit=2 * size + GIB) as held_to:
        part = held_to.open().ask("info")[0] * 6 // 10
        held_to.ask("allocate", part)
        book_before = held_to.book()["used"]
        held_to.ask("reset")
        book_after = held_to.book()["used"]
        held_to.ask("open")
        error = held_to.error("allocate", part)
    said.append(f"book {mib(book_before)} -> {mib(book_after)}, as much again: {'denied' if error else 'granted'}")
    card = re.sub("^(NVIDIA|Tesla) ", "", nvml.name())
    return Finding("; ".join(said), bool(active) and returned and error == 0, {"reset_deactivates": not active, "contexts": {nvml.name(): f"{context // MIB}MiB"}},
                   [f"--sim='{card}:{nvml.memory().total // MIB}MiB,driver=FILE' is this card"],
                   broken="what a reset gave back stays charged" if error == OUT_OF_MEMORY and returned else "")


@experiment(8, "small pieces: what each takes of the device, and of the limit", "64 x 64 arrays: far below 2 MiB; 1 MiB + 1: 2 MiB; 512 B: 512 B", 90)
def small_pieces():
    nvml, count, said, good = Nvml(), 1000, [], True
    for name, words, at_most in (("1 MiB + 1 B", ("allocate_many", count, MIB + 1), 2 * MIB), ("512 B", ("allocate_many", count, 512), 4096),
                                 *((f"array of {width} x {height}", ("arrays", count, width, height), MIB // 2) for width, height in ((64, 64), (65, 65), (1, 1), (1000, 3)))):
        with Actor() as bare:
            bare.open()
            before = settled(nvml.used)
            bare.ask(*words)
            each = (settled(nvml.used) - before) / count
        with Actor(limit=3 * GIB) as limited:
            limited.open()
            before = limited.book()["used"]
            error = limited.error(*words)
            charged = (limited.book()["used"] - before) / count
        said.append(f"{name}: {mib(each)}, charged {mib(charged) if error == 0 else f'n/a (error {error})'}")
        good = good and each <= at_most
    return Finding("; ".join(said), good, notes=["Small pieces: " + "; ".join(said)])


@experiment(9, "pools: reserved for 1 B to 1 GiB, and after", "grows by 32 MiB; what is free in it goes at a synchronisation", 60)
def pools():
    gpu = Gpu().open()
    reserved = lambda: gpu.pool_attribute(POOL_RESERVED)
    steps, addresses = [], []
    size = 1
    while size <= min(GIB, gpu.info()[0] // 4):
        before = reserved()
        addresses.append(gpu.allocate_async(size))
        gpu.call("cuStreamSynchronize", None)
        steps.append(reserved() - before)
        print(f"{size} B: reserved {before} -> {before + steps[-1]}, address {addresses[-1]:#x}")
        size *= 4
    most = reserved()
    while gpu.blocks:
        gpu.free_async()
    freed = reserved()
    gpu.synchronize()
    synchronised = reserved()
    gpu.call("cuMemPoolTrimTo", gpu.pool(), 0)
    trimmed = reserved()
    # Its step: what the next growth adds, in small requests.
    growth, last = [], trimmed
    while len(growth) < 4 and len(gpu.blocks) < 1024:
        gpu.allocate_async(MIB)
        gpu.call("cuStreamSynchronize", None)
        if reserved() != last:
            growth.append(reserved() - last)
            last = reserved()
    print("grew by", growth)
    step = max(growth, default=0)
    apart = min((abs(a - b) for a in addresses[:4] for b in addresses[:4] if a != b), default=0)
    said = f"first {mib(steps[0])}, then by {', '.join(sorted(set(map(mib, growth))))}; {mib(most)} at most, {mib(freed)} freed, {mib(synchronised)} synchronised, {mib(trimmed)} trimmed; small ones {apart} B apart"
    return Finding(said, step == 32 * MIB and synchronised == 0, {"pool_growth": f"{step // MIB}MiB"} if step >= MIB else {})


@experiment(10, "graphs with memory nodes: reserved after each step", "grows at upload or launch, not before", 30)
def graphs():
    gpu, size = Gpu().open(), piece()
    graph, node, run = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    gpu.call("cuGraphCreate", ctypes.byref(graph), 0)
    wanted = AllocationNode(pool=PoolProperties(type=1, location=Location(1, 0)), size=size)
    gpu.call("cuGraphAddMemAllocNode", ctypes.byref(node), graph, None, 0, ctypes.byref(wanted))
    free = ctypes.c_void_p()
    gpu.call("cuGraphAddMemFreeNode", ctypes.byref(free), graph, ctypes.byref(node), 1, wanted.address)
    reserved = lambda: gpu.get_attribute("cuDeviceGetGraphMemAttribute", 0, GRAPH_RESERVED)
    seen = [("made", reserved())]
    gpu.call("cuGraphInstantiateWithFlags", ctypes.byref(run), graph, 0)
    seen.append(("instantiated", reserved()))
    for name, function in (("uploaded", "cuGraphUpload"), ("launched", "cuGraphLaunch")):
        gpu.call(function, run, None)
        gpu.synchronize()
        seen.append((name, reserved()))
    gpu.call("cuGraphExecDestroy", run)
    gpu.call("cuDeviceGraphMemTrim", 0)
    seen.append(("trimmed", reserved()))
    values = dict(seen)
    return Finding(", ".join(f"{name} {mib(value)}" for name, value in seen), values["instantiated"] == 0 and values["launched"] >= size)


@experiment(13, "managed memory, untouched and on the device", "NVML leaves it out of the process; untouched it takes nothing", 60)
def managed_memory():
    nvml, size = Nvml(), piece(8 * GIB, 4)
    with Actor() as bare:
        bare.open()
        before, own = nvml.used(), nvml.of(bare.process.pid)
        bare.ask("managed", size)
        untouched = settled(nvml.used) - before
        error = bare.error("prefetch", size)
        moved = settled(nvml.used) - before
        listed = nvml.of(bare.process.pid)
        of_process = None if listed is None or own is None else listed - own
        said = [f"{mib(size)}: device {mib(untouched)} untouched, {mib(moved)} prefetched{f' (error {error})' if error else ''}, of the process {mib(of_process)}"]
    # More than the card has can hang it on some machines: only for who asks.
    if os.environ.get("RATION_EXPERIMENT_OVERSUBSCRIBE"):
        with Actor() as bare:
            before = nvml.used()
            error = bare.open().error("managed", 2 * nvml.memory().total)
            said.append(f"twice the card: {f'error {error}' if error else 'granted'}, device {mib(settled(nvml.used) - before)} untouched")
    else:
        said.append("twice the card: n/a (RATION_EXPERIMENT_OVERSUBSCRIBE=1 tries it)")
    # As much as the limit, which the context takes a part of.
    with Actor(limit=size + GIB) as limited:
        before = nvml.used()
        error = limited.open().error("managed", limited.limit)
        moved_error = 0 if error else limited.error("prefetch", limited.limit)
        taken = settled(nvml.used) - before
        said.append(f"under a limit of as much: {f'error {error}' if error else 'granted'}, device {mib(taken)} prefetched{f' (error {moved_error})' if moved_error else ''}, "
                    f"charged {mib(limited.book()['used'])} of {mib(limited.limit)}")
        exceeded = taken > limited.limit + GIB // 4
    with Actor(limit=size + GIB, run_options=["--managed", "charge"]) as limited:
        error = limited.open().error("managed", limited.limit)
        said.append(f"with --managed charge: {'denied' if error == OUT_OF_MEMORY else f'error {error}' if error else 'granted'}")
    return Finding("; ".join(said), untouched < size // 8 and of_process is not None and of_process < size // 8,
                   broken="managed memory on the device went past the limit" if exceeded else "")


@experiment(29, "plain memory given back by cuMemFreeAsync", "works; it leaves the device and the book", 30)
def plain_memory_freed_in_order():
    nvml, size, said = Nvml(), piece(), []
    with Actor() as bare, Actor(limit=2 * size + GIB) as limited:
        bare.open(), limited.open()
        before, booked = settled(nvml.used), limited.book()["used"]
        bare.ask("allocate", size)
        error = bare.error("give_back_in_order")
        left = settled(nvml.used) - before
        limited.ask("allocate", size)
        under_limit = limited.error("give_back_in_order")
        charged = limited.book()["used"] - booked
        on_device = settled(nvml.used) - before - left
        said = [f"error {error}, {mib(left)} stay on the device; under a limit error {under_limit}, {mib(on_device)} stay, {mib(charged)} charged"]
    return Finding("; ".join(said), error == 0 and left < size // 2 and charged < size // 2 and under_limit == error,
                   broken="freed memory stays charged" if charged - on_device >= size // 2 else "memory on the device is not charged" if on_device - charged >= size // 2 else "")
