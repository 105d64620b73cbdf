"""Replays a recorded allocation history: `histories.py ours|torch|cupy FILE.csv`. One line of JSON: `ns` a pair of allocating and freeing, with what Python
adds, the best of five times; `bytes` that were taken of the device at most."""
import csv
import json
import sys
import time

from pool import give, info, take


def events(path):
    """`(id, bytes)`; 0 bytes: that block is freed. What is left at the end is freed then."""
    live, listed = set(), []
    with open(path) as file:
        for row in csv.DictReader(file):
            if row["op"] == "a" and int(row["size"]) > 0:
                live.add(row["id"])
                listed.append((row["id"], int(row["size"])))
            elif row["op"] == "f" and row["id"] in live:
                live.remove(row["id"])
                listed.append((row["id"], 0))
    return listed + [(block, 0) for block in live]


def ours():
    import ration
    for gpu in ration.config.list_physical_devices("GPU"):
        ration.config.experimental.set_memory_growth(gpu, True)
    return lambda size: take(0, size), lambda block: give(0, block), lambda: info(0)["peak_held"]


def torch():
    import torch
    torch.cuda.init()
    return torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete, torch.cuda.max_memory_reserved


def cupy():
    import cupy
    pool = cupy.cuda.MemoryPool()
    return pool.malloc, lambda block: None, pool.total_bytes  # a block is freed where nothing names it any more


def main(name, path):
    allocate, free, taken = {"ours": ours, "torch": torch, "cupy": cupy}[name]()
    listed, best, blocks = events(path), float("inf"), {}
    for _ in range(5):
        start = time.perf_counter_ns()
        for block, size in listed:
            if size:
                blocks[block] = allocate(size)
            else:
                free(blocks.pop(block))
        best = min(best, (time.perf_counter_ns() - start) / (len(listed) / 2))
    print(json.dumps({"ns": best, "bytes": taken()}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
