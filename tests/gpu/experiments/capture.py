"""What a stream bears while it is captured: the guard asks the driver in the middle of a program's own calls."""
import ctypes

from . import MIB, Finding, experiment
from .actor import Actor, trace
from .driver import CallFailed, Location

RELAXED, GLOBAL = 2, 0


def questions(gpu, stream):
    """What the guard asks, by name: the driver's answer to it."""
    number, size, pool, context, mode = ctypes.c_int(), ctypes.c_uint64(), gpu.pool(), ctypes.c_void_p(), ctypes.c_int(RELAXED)
    address = ctypes.c_uint64()
    return {
        "cuStreamIsCapturing": lambda: gpu.answer("cuStreamIsCapturing", stream, ctypes.byref(number)),
        "cuStreamGetDevice": lambda: gpu.answer("cuStreamGetDevice", stream, ctypes.byref(number)),
        "cuStreamGetCtx": lambda: gpu.answer("cuStreamGetCtx", stream, ctypes.byref(context)),
        "cuCtxGetDevice": lambda: gpu.answer("cuCtxGetDevice", ctypes.byref(number)),
        "cuDeviceGetMemPool": lambda: gpu.answer("cuDeviceGetMemPool", ctypes.byref(context), 0),
        "cuMemPoolGetAttribute": lambda: gpu.answer("cuMemPoolGetAttribute", pool, 5, ctypes.byref(size)),
        "cuMemPoolGetAccess": lambda: gpu.answer("cuMemPoolGetAccess", ctypes.byref(number), pool, ctypes.byref(Location(1, 0))),
        "cuMemGetInfo_v2": lambda: gpu.answer("cuMemGetInfo_v2", ctypes.byref(size), ctypes.byref(address)),
        "cuMemPoolTrimTo": lambda: gpu.answer("cuMemPoolTrimTo", pool, 0),
        "cuThreadExchangeStreamCaptureMode": lambda: gpu.answer("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode)),
        "cuMemAllocAsync of 0 bytes": lambda: gpu.answer("cuMemAllocAsync", ctypes.byref(address), 0, stream),
        "cuMemAllocAsync": lambda: gpu.answer("cuMemAllocAsync", ctypes.byref(address), 2 * MIB, stream),
        "cuMemFreeAsync of plain memory": lambda: gpu.answer("cuMemFreeAsync", gpu.plain, stream),
        "cuMemAlloc_v2": lambda: gpu.answer("cuMemAlloc_v2", ctypes.byref(address), 2 * MIB),
        "cuEventCreate": lambda: gpu.answer("cuEventCreate", ctypes.byref(context), 2),
    }


def borne(gpu):
    """By mode and question: the driver's answer, and the error with which the capture ended after it."""
    gpu.open()
    gpu.plain = gpu.allocate(2 * MIB)
    said = {}
    for mode in (RELAXED, GLOBAL):
        for name in questions(gpu, None):
            stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
            gpu.call("cuStreamCreate", ctypes.byref(stream), 1)
            question = questions(gpu, stream)[name]
            gpu.call("cuStreamBeginCapture_v2", stream, mode)
            answer = question()
            if name == "cuThreadExchangeStreamCaptureMode":
                gpu.answer("cuThreadExchangeStreamCaptureMode", ctypes.byref(ctypes.c_int(GLOBAL)))
            ended = gpu.answer("cuStreamEndCapture", stream, ctypes.byref(graph))
            said[f"{'relaxed' if mode == RELAXED else 'global'}: {name}"] = [answer, ended]
            trace(mode, name, answer, ended)
            gpu.answer("cuStreamDestroy_v2", stream)
    return said


def captured_allocation(gpu, mode):
    """An allocation of 64 MiB on a stream that is captured, freed in it, launched twice; the error of the first step that fails."""
    gpu.open()
    stream, graph, run, address = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    steps = (("cuStreamCreate", ctypes.byref(stream), 1), ("cuStreamBeginCapture_v2", stream, mode), ("cuMemAllocAsync", ctypes.byref(address), 64 * MIB, stream),
             ("cuMemFreeAsync", address, stream), ("cuStreamEndCapture", stream, ctypes.byref(graph)))
    for name, *words in steps:
        gpu.call(name, *words)
    gpu.call("cuGraphInstantiateWithFlags", ctypes.byref(run), graph, 0)
    for _ in range(2):
        gpu.call("cuGraphLaunch", run, stream)
    gpu.synchronize()
    return gpu.info()[0]


@experiment(32, "questions of the guard while a stream is captured, and an allocation in a capture", "neither it nor ration disturbs a capture", 60)
def captures():
    with Actor() as bare:
        said = bare.ask("capture.borne")
    disturb = [f"{name} {answer}/{ended}" for name, (answer, ended) in said.items() if answer or ended]
    worked = {}
    for mode in (RELAXED, GLOBAL):
        for limit in (None, 2 << 30):
            with Actor(limit=limit) as program:
                try:
                    program.ask("capture.captured_allocation", mode)
                    worked[mode, limit is not None] = "works"
                except CallFailed as failed:
                    worked[mode, limit is not None] = str(failed)
    broken = [f"{'relaxed' if mode == RELAXED else 'global'}: {text}" for (mode, held), text in worked.items() if held and text != worked[mode, False]]
    return Finding(f"answer/end of the capture where either is an error: {', '.join(disturb) or 'none'}; an allocation in a capture: without {worked[RELAXED, False]}, {worked[GLOBAL, False]}; "
                   f"under a limit {worked[RELAXED, True]}, {worked[GLOBAL, True]}", not broken, broken="; ".join(broken))
