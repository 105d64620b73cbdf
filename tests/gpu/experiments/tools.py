"""Other users of the device and of the driver: video engines, Vulkan, MPS, green contexts, profilers and debuggers."""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile

from . import GIB, MIB, Finding, NotPossible, experiment, mib, setting
from .actor import Actor, installed, ration, run, settled
from .driver import CallFailed, Nvml, piece


class DeviceResource(ctypes.Structure):
    """CUdevResource: its type, what the driver keeps to itself, the resource, and (CUDA 13) a link."""
    _fields_ = [("type", ctypes.c_int), ("internal", ctypes.c_ubyte * 92), ("of", ctypes.c_ubyte * 48), ("next", ctypes.c_void_p)]


def allocate_in_green_context(gpu, size):
    gpu.init()
    resource, description, green, context = DeviceResource(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    gpu.call("cuDeviceGetDevResource", 0, ctypes.byref(resource), 1)  # multiprocessors
    gpu.call("cuDevResourceGenerateDesc", ctypes.byref(description), ctypes.byref(resource), 1)
    gpu.call("cuGreenCtxCreate", ctypes.byref(green), description, 0, 1)
    gpu.call("cuCtxFromGreenCtx", ctypes.byref(context), green)
    gpu.call("cuCtxSetCurrent", context)
    gpu.allocate(size)


def green_context(size):
    with Actor(limit=4 * GIB) as limited:
        try:
            limited.ask("tools.allocate_in_green_context", size)
        except CallFailed as failed:
            return None, str(failed)
        told = limited.book()
        return told["used"] >= size, f"{mib(size)}: book {mib(told['used'])}, driver {mib(told['driver'])}"


def mps_client(size):
    if not shutil.which("nvidia-cuda-mps-control"):
        return None, "it is not installed"
    with tempfile.TemporaryDirectory() as folder:
        environment = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        started = run("nvidia-cuda-mps-control", "-d", env={**os.environ, **environment})
        print(started.stdout)
        if started.returncode != 0:
            return None, "MPS does not start"
        try:
            with Actor(limit=4 * GIB, environment=environment) as limited:
                limited.open().ask("allocate", size)
                told, listed = limited.book(), Nvml().of(limited.process.pid)
            return told["used"] >= size, f"book {mib(told['used'])}, NVML {mib(listed)}"
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env={**os.environ, **environment}, timeout=10)


def tool_around(name, *words):
    program = installed(name)
    if not program:
        return None, "it is not installed"
    workload = os.path.join(os.path.dirname(setting("ration")), "ration-workload")
    try:
        done = run(*ration("run", "--limit", "3GiB", "--", program, *words, workload, "grab", "--steps", "2", "--steady", "200MiB", "--peak", "400MiB"), timeout=40)
    except subprocess.TimeoutExpired:
        return False, "no end in 40 s"
    print(done.stdout)
    works = "held at most" in done.stdout
    return works, "works" if works else f"exit code {done.returncode}"


def video():
    nvml = Nvml()
    if not shutil.which("ffmpeg"):
        return None, "ffmpeg is not installed"
    before = nvml.used()
    words = ["ffmpeg", "-nostdin", "-hide_banner", "-f", "lavfi", "-i", "testsrc=size=1920x1080:rate=60:duration=600", "-c:v", "h264_nvenc", "-f", "null", "-"]
    with Actor(limit=4 * GIB, command=words) as encoder:
        try:
            encoder.process.wait(5)
            return None, "ffmpeg has no h264_nvenc here"
        except subprocess.TimeoutExpired:
            charged, taken = encoder.book()["used"], nvml.used() - before
    return taken - charged > 16 * MIB, f"book {mib(charged)}, device {mib(taken)}"


def by_vulkan(size):
    nvml = Nvml()
    before = nvml.used()
    with Actor(limit=4 * GIB, command=[sys.executable, "-m", "experiments.vulkan", str(size)]) as program:
        line = program.process.stdout.readline().strip()
        if line != "holds":
            return None, line or "it ended"
        taken = settled(nvml.used) - before
    return taken >= size, f"{mib(size)} held, device {mib(taken)}, and no book has it"


def several(parts):
    """One finding of several, of which some may not be possible."""
    if all(good is None for good, _ in parts.values()):
        raise NotPossible("; ".join(f"{name}: {text}" for name, (_, text) in parts.items()))
    return Finding("; ".join(f"{name}: {f'n/a ({text})' if good is None else text}" for name, (good, text) in parts.items()),
                   all(good is not False for good, _ in parts.values()))


@experiment(19, "video engines (ffmpeg) and Vulkan: the driver's figure beside the book", "escape", 90)
def escapes():
    size = piece()
    return several({"video": video(), "Vulkan": by_vulkan(size)})


@experiment(20, "an MPS client, a green context, and CUDA's tools around a program under a limit", "charged, and held; the tools work", 140)
def others():
    size = piece(GIB // 2)
    with tempfile.TemporaryDirectory() as folder:
        return several({"MPS": mps_client(size), "green context": green_context(size), "nsys": tool_around("nsys", "profile", "--output", folder + "/report"),
                        "cuda-gdb": tool_around("cuda-gdb", "-nx", "-batch", "-ex", "run", "--args"), "compute-sanitizer": tool_around("compute-sanitizer")})
