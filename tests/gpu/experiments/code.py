"""Memory that nobody asks for: stacks and local memory of kernels, code, global variables, and what a PyTorch step takes."""
import importlib.util
import struct

from . import GIB, MIB, Finding, NotPossible, experiment, mib, simulated
from .actor import Actor, Ended, settled
from .driver import OUT_OF_MEMORY, STACK_LIMIT, Gpu, Nvml, piece

KIB = 1024

# A kernel with 16 KiB of local memory a thread, by indices that only its arguments tell.
LOCAL = b""".visible .entry kernel__local16384(.param .u64 written, .param .u64 read, .param .u64 result)
{
  .local .align 4 .b8 room[16384];
  .reg .b64 %room, %index, %address;
  .reg .b32 %value;
  mov.u64 %room, room;
  ld.param.u64 %index, [written];
  cvt.u32.u64 %value, %index;
  and.b64 %index, %index, 4095;
  shl.b64 %index, %index, 2;
  add.u64 %address, %room, %index;
  st.local.u32 [%address], %value;
  ld.param.u64 %index, [read];
  and.b64 %index, %index, 4095;
  shl.b64 %index, %index, 2;
  add.u64 %address, %room, %index;
  ld.local.u32 %value, [%address];
  ld.param.u64 %address, [result];
  st.global.u32 [%address], %value;
  ret;
}
"""

NOTHING = b".visible .entry nothing() { ret; }\n"

# With `__device__` arrays, which its kernel touches so that nothing leaves them out.
GLOBALS = """{arrays}
.visible .entry touch()
{{
  .reg .b64 %address;
  .reg .b32 %value;
  mov.u32 %value, 1;
{touches}
  ret;
}}
"""


def set_stack(gpu, size):
    gpu.call("cuCtxSetLimit", STACK_LIMIT, size)


def run_nothing(gpu):
    gpu.launch(gpu.function(gpu.load(NOTHING), "nothing"))


def run_with_local_memory(gpu):
    gpu.launch(gpu.function(gpu.load(LOCAL), "kernel__local16384"), 7, 9, gpu.blocks[-1])


@experiment(7, "stack limit 1 to 16 KiB, and a kernel with 16 KiB of locals", "each takes its size x resident threads; the limit is charged when it is set", 60)
def stacks():
    nvml, gpu = Nvml(), Gpu().open()
    threads, said, grew = gpu.threads(), [], []
    expected = threads * 16 * KIB
    for name, *steps in (("stack limit", ("set", "code.set_stack", 16 * KIB), ("after a kernel", "code.run_nothing")), ("kernel", ("launched", "code.run_with_local_memory"))):
        with Actor() as bare, Actor(limit=2 * (expected + GIB)) as limited:
            for actor in (bare, limited):
                actor.open().ask("allocate", MIB)
            charged, parts = -limited.book()["used"], []
            before = settled(nvml.used)
            for step, *words in steps:
                bare.ask(*words)
                parts.append(f"{mib(settled(nvml.used) - before)} {step}")
            grew.append(nvml.used() - before)
            for _, *words in steps:
                limited.ask(*words)
            charged += limited.book()["used"]
        said.append(f"{name}: {', '.join(parts)}, charged {mib(charged)}")
    return Finding(f"{threads} threads: " + "; ".join(said), all(0.7 * expected < grown < 1.3 * expected for grown in grew))


def globals_image(gpu, form, size):
    """Code with so many bytes of global variables: `text` (PTX), or `cubin`."""
    if simulated() and form == "cubin":  # no bits in the file; loaded, written
        section = struct.pack("<IIQQQQIIQQ", 0, 8, 3, 0, 64, size, 0, 0, 256, 0)
        return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64, 0, 64, 0, 0, 64, 1, 0) + section
    count = max(1, size // (512 * MIB))
    text = GLOBALS.format(arrays="\n".join(f".visible .global .align 16 .b8 array{i}[{size // count}];" for i in range(count)),
                          touches="\n".join(f"  mov.u64 %address, array{i};\n  st.global.u32 [%address], %value;" for i in range(count))).encode()
    return gpu.link(text) if form == "cubin" else text


def load_globals(gpu, form, size):
    gpu.loaded = gpu.load(globals_image(gpu, form, size))


def touch_globals(gpu):
    gpu.launch(gpu.function(gpu.loaded, "touch"))


@experiment(11, "code with global variables, lazy and eager", "taken when it is loaded; a cubin is charged, text escapes until a daemon looks", 90)
def loaded_code():
    nvml, size = Nvml(), piece()
    limit, said, good, broken = 2 * size + GIB // 2, [], True, ""
    for form, mode in (("cubin", "LAZY"), ("cubin", "EAGER"), ("text", "LAZY")):
        with Actor(environment={"CUDA_MODULE_LOADING": mode}) as bare:
            bare.open()
            before = settled(nvml.used)
            bare.ask("code.load_globals", form, size)
            loaded = settled(nvml.used) - before
            bare.ask("code.touch_globals")
            touched = settled(nvml.used) - before
        with Actor(limit=limit, environment={"CUDA_MODULE_LOADING": mode}) as limited:
            limited.open()
            before = limited.book()["used"]
            limited.ask("code.load_globals", form, size)
            charged = limited.book()["used"] - before
        said.append(f"{form}, {mode.lower()}: {mib(loaded)} loaded, {mib(touched)} used, charged {mib(charged)}")
        good = good and (form == "text" or (loaded >= size and charged >= size))
    with Actor(limit=limit) as limited:
        error = limited.open().error("code.load_globals", "cubin", limited.limit)
        said.append(f"beyond a limit: {'denied' if error == OUT_OF_MEMORY else f'error {error}' if error else 'granted'}")
        if error == 0:
            broken = "global variables of a cubin went past the limit"
    return Finding(f"{mib(size)}; " + "; ".join(said), good and error == OUT_OF_MEMORY, broken=broken)


def torch_step(gpu):
    """Matrix products and convolutions, forward and back; what PyTorch reserved."""
    import torch
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3), torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(),
                                torch.nn.Linear(4096, 256)).cuda()
    optimiser = torch.optim.Adam(model.parameters())
    for _ in range(2):
        optimiser.zero_grad()
        with torch.autocast("cuda"):
            model(torch.randn(32, 3, 64, 64, device="cuda")).square().mean().backward()
        optimiser.step()
    torch.cuda.synchronize()
    return torch.cuda.memory_reserved()


@experiment(12, "a PyTorch step with cuBLAS and cuDNN: the driver's figure less the book", "within 256 MiB: code is charged as it lies in its file", 120)
def pytorch():
    if importlib.util.find_spec("torch") is None:
        raise NotPossible("PyTorch is not installed")
    if simulated():
        raise NotPossible("the simulator runs no kernels")
    with Actor() as bare:
        bare.ask("code.torch_step")
    with Actor(limit=8 * GIB) as limited:
        try:
            reserved = limited.ask("code.torch_step")
        except (Ended, RuntimeError) as error:
            return Finding(f"under a limit of 8 GiB: {error}", False, broken="a PyTorch step failed under a limit that it fits")
        told = limited.book()
    if told["driver"] is None:
        return Finding(f"{mib(reserved)} reserved; book {mib(told['used'])}, driver n/a", False)
    beyond = told["driver"] - told["used"]
    return Finding(f"{mib(reserved)} reserved by PyTorch, context {mib(told['context'])}; book {mib(told['used'])}, driver {mib(told['driver'])}: {mib(beyond)} beyond",
                   abs(beyond) <= GIB // 4, notes=[f"A PyTorch step takes {mib(beyond)} more than the book has"])
