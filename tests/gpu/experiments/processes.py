"""How programs meet the driver: the CUDA runtime, calls of the driver to itself, NVML's cost and its view in containers, the cost of calls."""
import ctypes
import glob
import os
import re
import shutil
import site
import sys
import tempfile
import time

from . import GIB, MIB, Finding, NotPossible, experiment, mib, simulated
from .actor import Actor, installed, ration, run
from .driver import POOL_RESERVED, Gpu, Library, Nvml, piece
from .exports import guard_folder


def find_libraries(name):
    """Files that match, where pip, conda, CUDA's installer and the system put them."""
    folders = [*site.getsitepackages(), site.getusersitepackages(), *[path for path in sys.path if path.endswith("-packages")]]
    patterns = [f"{folder}/nvidia/*/lib/{name}" for folder in folders] + [f"{sys.prefix}/lib/{name}", f"/usr/local/cuda*/lib64/{name}", f"/usr/lib/x86_64-linux-gnu/{name}"]
    return [path for pattern in patterns for path in sorted(glob.glob(pattern))]


def start_runtime(gpu, name):
    """`cudaFree(0)`: the runtime's way to a context."""
    Library(name).call("cudaFree", None)


def start_blas(gpu, name):
    """cuBLAS has the runtime linked in statically; the simulated one wants a context."""
    if simulated():
        start_runtime(gpu, "libcudart.so.13")
    for part in find_libraries("libcublasLt.so.1[0-9]"):
        if os.path.dirname(part) == os.path.dirname(name):
            ctypes.CDLL(part, mode=ctypes.RTLD_GLOBAL)
    handle = ctypes.c_void_p()
    Library(name).call("cublasCreate_v2", ctypes.byref(handle))


@experiment(3, "a context made by the CUDA runtime, also a static one", "charged once", 60)
def runtime_contexts():
    if simulated():
        found = [("runtime", "start_runtime", "libcudart.so.13"), ("cuBLAS", "start_blas", "libcublas.so.13")]
    else:
        found = [(label, function, paths[-1]) for label, function, paths in (("runtime", "start_runtime", find_libraries("libcudart.so.1[0-9]")),
                                                                           ("cuBLAS", "start_blas", find_libraries("libcublas.so.1[0-9]"))) if paths]
    if not found:
        raise NotPossible("no libcudart.so and no libcublas.so is installed")
    with Actor(limit=4 * GIB) as plain:
        once = plain.open().book()["context"]
    said, good = [f"one by the driver: {mib(once)}"], True
    for label, function, path in found:
        with Actor(limit=4 * GIB, run_options=["--sim-cuda", "13"] if simulated() else []) as program:
            program.ask("processes." + function, path)
            told = program.book()
        said.append(f"{label}: {mib(told['context'])} in the book, {mib(told['driver'])} by the driver")
        good = good and told["context"] == once
    return Finding("; ".join(said), good)


# Each stop at a function that is in the guard and in the driver: which it is, and the function that called it.
DEBUGGER = """set pagination off
set confirm off
set breakpoint pending on
set startup-with-shell off
{breaks}
run
"""
WATCHED = ["cuMemAlloc_v2", "cuMemFree_v2", "cuMemCreate", "cuMemRelease", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemAllocManaged", "cuArrayCreate_v2"]


def a_bit_of_everything():
    gpu, size = Gpu().open(), 2 * MIB
    gpu.arrays(2, 64, 64), gpu.allocate(size), gpu.managed(size), gpu.free_all()
    gpu.allocate_async(size), gpu.free_async(), gpu.synchronize()
    gpu.create(size), gpu.map(), gpu.unmap(), gpu.release()
    gpu.reset()


@experiment(4, "the guard's functions, called by the driver itself (gdb)", "never", 90)
def reentry():
    debugger = installed("gdb") or installed("cuda-gdb")
    if not debugger:
        raise NotPossible("gdb is not installed")
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as commands:
        commands.write(DEBUGGER.format(breaks="\n".join(f"break {name}\ncommands\nsilent\nbt 2\ncontinue\nend" for name in WATCHED)))
        commands.flush()
        done = run(*ration("run", "--limit", "1GiB", "--", debugger, "-nx", "-batch", "-x", commands.name, "--args", sys.executable, "-m", "experiments.processes"))
    print(done.stdout)
    stops = re.findall(r"^#0 .* from (\S+)\n#1 .*?(?: from (\S+))?$", done.stdout, re.MULTILINE)
    callers = [caller for library, caller in stops if library.startswith(str(guard_folder()))]
    if not callers:
        raise NotPossible("gdb did not stop in the guard")
    of_driver = [caller for caller in callers if re.search(r"lib(cuda|nvidia-)", caller) and not caller.startswith(str(guard_folder()))]
    return Finding(f"{len(callers)} calls of the guard, {len(of_driver)} of them by the driver", not of_driver)


def mean_ms(function, times):
    start = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - start) * 1000 / times


@experiment(16, "cost of NVML: start, list of processes, utilisation", "1 to 10 ms each", 60)
def cost_of_nvml():
    library = Library("libnvidia-ml.so.1")

    def start_and_end():
        library.call("nvmlInit_v2")
        library.call("nvmlShutdown")

    first = mean_ms(start_and_end, 1)
    again = mean_ms(start_and_end, 3)
    nvml = Nvml()
    listed, used = mean_ms(nvml.processes, 100), mean_ms(nvml.utilisation, 100)
    return Finding(f"first start {first:.1f} ms, another {again:.1f} ms; list {listed:.2f} ms, utilisation {used:.2f} ms; persistence mode {nvml.persistence()}", max(listed, used) <= 10)


def times(gpu):
    """Nanoseconds of a few calls, with what Python adds to each; the last does nothing else."""
    gpu.open()
    size, pool, current, version = gpu.round_up(2 * MIB), gpu.pool(), ctypes.c_void_p(), ctypes.c_int()

    def malloc():
        gpu.allocate(size)
        gpu.free()

    def asynchronous():
        gpu.allocate_async(size)
        gpu.free_async()

    def create_and_map():
        gpu.create(size)
        gpu.map()
        gpu.unmap()
        gpu.release()

    gpu.allocate_async(size)  # keeps the pool from giving everything back
    measured = {"cuMemAlloc + Free": (malloc, 100), "AllocAsync + FreeAsync": (asynchronous, 300), "create + map": (create_and_map, 30),
                "cuCtxGetCurrent": (lambda: gpu.call("cuCtxGetCurrent", ctypes.byref(current)), 1000),
                "pool attribute": (lambda: gpu.get_attribute("cuMemPoolGetAttribute", pool, POOL_RESERVED), 1000),
                "Python's part": (lambda: gpu.call("cuDriverGetVersion", ctypes.byref(version)), 1000)}
    return {name: min(mean_ms(function, count) for _ in range(5)) * 1e6 for name, (function, count) in measured.items()}


@experiment(17, "ns of calls, without and with a limit", "below 1 us more", 60)
def cost_of_calls():
    with Actor() as bare, Actor(limit=4 * GIB) as limited:
        without, held = bare.ask("processes.times"), limited.ask("processes.times")
    return Finding("; ".join(f"{name} {without[name]:.0f}, {held[name]:.0f}" for name in without), held["cuMemAlloc + Free"] - without["cuMemAlloc + Free"] < 1000)


def listed_by_nvml(gpu):
    return Nvml().processes()


@experiment(18, "a process in a pid namespace of its own: its number and bytes by NVML", "its own number there, and its bytes (R570 and later)", 60)
def in_a_container():
    size = piece()
    with Actor() as outside:
        outside.open().ask("allocate", size)
        own = Nvml().of(outside.process.pid)
    tells = own is not None and own >= size
    facts, said = {"process_bytes": tells}, [f"outside: {'n/a (not listed, or 0 bytes)' if own is None else mib(own)}"]
    unshare = ["unshare", *([] if os.geteuid() == 0 else ["-Ur"]), "-pf", "--mount-proc"]
    if not shutil.which("unshare") or run(*unshare, "true").returncode != 0:
        return Finding("; ".join([*said, "inside: n/a (unshare -p is not permitted)"]), tells, facts)
    with Actor(launcher=unshare) as inside:
        inside.open().ask("allocate", size)
        number, listed = inside.ask("pid"), inside.ask("processes.listed_by_nvml")
    there = listed.get(str(number))
    said.append(f"inside, as {number}: {'not listed' if str(number) not in listed else mib(there)}, of {len(listed)} listed")
    return Finding("; ".join(said), tells and there is not None and there >= size, facts)


if __name__ == "__main__":
    a_bit_of_everything()
