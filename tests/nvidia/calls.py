"""Prints what a driver answers on a machine without a card, as JSON: its first calls by the main thread, by threads and after a fork, and every
hooked function with good and wrong arguments."""
import ctypes
import json
import os
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system/limits"))
import wrong_calls  # noqa: E402

cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")


def answers():
    number, size, text = ctypes.c_int(-1), ctypes.c_size_t(1), ctypes.c_char_p()
    pointer = ctypes.c_void_p()
    told = [cuda.cuInit(7), cuda.cuInit(0), cuda.cuDriverGetVersion(ctypes.byref(number)), number.value, cuda.cuDeviceGetCount(ctypes.byref(number)), number.value]
    for error in (0, 2, 100, 999, 12345):
        told += [cuda.cuGetErrorName(error, ctypes.byref(text)), str(text.value), cuda.cuGetErrorString(error, ctypes.byref(text)), str(text.value)]
    told += [cuda.cuCtxGetCurrent(ctypes.byref(pointer)), cuda.cuDeviceGet(ctypes.byref(number), 0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(pointer), 0),
             cuda.cuMemAlloc_v2(ctypes.byref(pointer), size), cuda.cuMemGetInfo_v2(ctypes.byref(size), ctypes.byref(size)), cuda.cuMemFree_v2(pointer),
             cuda.cuMemAllocAsync(ctypes.byref(pointer), size, None), cuda.cuCtxSynchronize(), cuda.cuMemHostAlloc(ctypes.byref(pointer), size, 0)]
    told += [nvml.nvmlInit_v2(), nvml.nvmlDeviceGetCount_v2(ctypes.byref(number)), nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(pointer)), nvml.nvmlShutdown()]
    return told


def in_threads():
    told = []
    threads = [threading.Thread(target=lambda: told.append(answers())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def after_fork():
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, json.dumps(answers()).encode())
        os._exit(0)
    os.close(writing)
    os.wait()
    with os.fdopen(reading) as pipe:
        return json.load(pipe)


def of_hooked_functions(state):
    scene, told = wrong_calls.Scene(state), {}
    calls = [(f"{function} {case}", function, values) for function in wrong_calls.functions() if function in EXPORTED
             for case, values in wrong_calls.cases(function)]
    ended = what_ends_a_process(scene, calls)
    for name, function, values in calls:
        told[name] = ended.get(name) or scene.call(function, values)[:2]
    return told


def what_ends_a_process(scene, calls):
    """Tries the calls in forked processes, and returns which of them end one, and by what signal: NVIDIA's 555 reads through a null pointer
    (`cuCtxCreate_v4`) where it finds no card."""
    ended = {}
    while calls:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            for _, function, values in calls:
                os.write(writing, b".")
                scene.call(function, values)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            begun = len(pipe.read())
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert begun == len(calls), calls[begun - 1]
            break
        ended[calls[begun - 1][0]] = f"ended by signal {os.WTERMSIG(status)}"
        calls = calls[begun:]
    return ended


if __name__ == "__main__":
    EXPORTED = set(sys.argv[1:])
    print(json.dumps({"before init": of_hooked_functions("before init"), "fork before the first call": after_fork(), "threads": in_threads(),
                      "main": answers(), "fork after it": after_fork(), "no card": of_hooked_functions("no card")}))
