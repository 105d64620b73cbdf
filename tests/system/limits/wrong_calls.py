"""Calls every hooked function of the driver with wrong arguments, each call in a process of its own, and prints what came of it as JSON.

Run by wrong_calls_test.py, under `ration run` and without it; tests/nvidia uses its scene on a driver that finds no card. `form_of(function)`
returns the arguments of a function; a hooked function that stands in no form is an error.
"""
import ctypes
import json
import os
import pathlib
import sys

TABLE = pathlib.Path(__file__).parents[3] / "src/driver/driver_api.tsv"
BIG = (1 << 64) - 1
OUT, NULL = "out", "null"
# What stands for an argument: its good value (or "out": 64 bytes that the call may write; "block", "handle" …: made beforehand) and its wrong ones.
WORDS = {
    "out": (OUT, [NULL]),
    "size": (2 << 20, [0, BIG, 12345]),
    "side": (64, [0, BIG, 123]),
    "device": (0, [-1, 1, 99]),
    "address": ("block", [0, 0xdead0000, "middle", "freed"]),
    "range": ("managed", [0, 0xdead0000, "block", "freed"]),
    "mapped": ("mapped", [0, 0xdead0000, "block"]),
    "reserved": ("reserved", [0, 0xdead0000, "unaligned"]),
    "handle": ("handle", [0, 0xdead0000, "released"]),
    "array": ("array", [0]),
    "context": ("context", [0, "destroyed"]),
    "flags": (0, [0xffff]),
    "pid": ("pid", [0, -1]),
    "pool": ("pool", [0]),
    "stream": (0, []),
    "properties": ("properties", [NULL, "of no type", "of device 1", "of device -1"]),
    "pool properties": ("pool properties", [NULL]),
    "descriptor": ("descriptor", [-1, 9999]),
    "ipc": ("ipc", ["no ipc"]),
    "array 2d": ("array 2d", [NULL, "empty array", "array of no format"]),
    "array 3d": ("array 3d", [NULL, "empty array"]),
    "limit": (0, [77, -1]),
    "one": (1, [0, 77]),
    "element": (4, []),
    "graph": ("graph", [0]),
    "exec": ("exec", [0]),
    "data": ("no data", [NULL]),
    "name": ("no file", [NULL]),
    "zero": (0, []),
}
# Function without its variants -> its arguments.
FORMS = {
    "cuMemAlloc": "out size", "cuMemAllocPitch": "out out side side element", "cuMemAllocManaged": "out size one", "cuMemFree": "address",
    "cuMemAllocAsync": "out size stream", "cuMemAllocFromPoolAsync": "out size pool stream", "cuMemFreeAsync": "address stream",
    "cuMemCreate": "out size properties flags", "cuMemRelease": "handle", "cuMemMap": "reserved size zero handle flags", "cuMemUnmap": "mapped size",
    "cuMemRetainAllocationHandle": "out mapped", "cuMemExportToShareableHandle": "out handle one flags", "cuMemImportFromShareableHandle": "out descriptor one",
    "cuIpcGetMemHandle": "out address", "cuIpcOpenMemHandle": "out ipc one", "cuIpcCloseMemHandle": "address", "cuIpcGetEventHandle": "out zero",
    "cuIpcOpenEventHandle": "out ipc", "cuArrayCreate": "out array_2d", "cuArray3DCreate": "out array_3d", "cuMipmappedArrayCreate": "out array_3d one",
    "cuArrayDestroy": "array", "cuMipmappedArrayDestroy": "array", "cuCtxCreate": "out flags device", "cuGLCtxCreate": "out flags device", "cuCtxDestroy": "context", "cuCtxDetach": "context",
    "cuCtxAttach": "out flags", "cuCtxSetLimit": "limit size", "cuCtxSynchronize": "", "cuCtxSynchronize_v2": "context", "cuDevicePrimaryCtxRetain": "out device",
    "cuDevicePrimaryCtxRelease": "device", "cuDevicePrimaryCtxReset": "device", "cuDeviceTotalMem": "out device", "cuDeviceGraphMemTrim": "device",
    "cuMemGetInfo": "out out", "cuMemAdvise": "range size one device", "cuMemPrefetchAsync": "range size device stream", "cuMemMapArrayAsync": "zero zero stream",
    "cuMemPoolCreate": "out pool_properties", "cuMemPoolDestroy": "pool", "cuMemPoolTrimTo": "pool size", "cuMemPoolSetAttribute": "pool limit out",
    "cuMemPoolExportPointer": "out address", "cuMemPoolExportToShareableHandle": "out pool one flags", "cuMemPoolImportFromShareableHandle": "out descriptor one flags",
    "cuMemPoolImportPointer": "out pool ipc", "cuEventSynchronize": "zero", "cuDeviceSetMemPool": "device pool", "cuStreamEndCapture": "stream out", "cuStreamSynchronize": "stream", "cuGraphLaunch": "exec stream",
    "cuGraphUpload": "exec stream", "cuGraphExecDestroy": "exec", "cuGraphInstantiate": "out graph out out size", "cuGraphInstantiate_v2": "out graph out out size",
    "cuGraphInstantiateWithFlags": "out graph flags", "cuModuleLoad": "out name", "cuModuleLoadData": "out data", "cuModuleLoadDataEx": "out data zero zero zero",
    "cuModuleUnload": "zero", "cuLibraryUnload": "zero", "cuLibraryLoadData": "out data zero zero zero zero zero zero",
    "cuLibraryLoadFromFile": "out name zero zero zero zero zero zero", "cuModuleLoadFatBinary": "out data",
}
# Not called with wrong arguments, and why.
LEFT_OUT = {
    "cuGetProcAddress": "shim_routes tests every argument", "cuCtxCreate_v3": "the form of cuCtxCreate with a parameter more",
    "cuVDPAUCtxCreate": "the simulator has no video interface", "cuCtxCreate_v4": "the form of cuCtxCreate with a parameter more", "cuMemAdvise_v2": "its location is passed by value",
    "cuMemPrefetchAsync_v2": "its location is passed by value", "cuMemPrefetchBatchAsync": "arrays of ranges: managed_test",
    "cuMemDiscardAndPrefetchBatchAsync": "arrays of ranges: managed_test", "cuGraphInstantiateWithParams": "a structure of its own: graphs_test",
    "cuImportExternalMemory": "only noted", "cuMemGetHandleForAddressRange": "only noted", "cuMulticastCreate": "only noted",
    "cuMulticastBindAddr": "the simulator has no multicast objects", "cuMulticastBindMem": "the simulator has no multicast objects",
    "cuMulticastUnbind": "the simulator has no multicast objects", "cuMemGetDefaultMemPool": "by a location: pools_test",
    "cuMemGetMemPool": "by a location: pools_test", "cuMemSetMemPool": "by a location: pools_test", "cuLibraryGetManaged": "needs a library that has such a variable",
}


def form_of(function):
    """The arguments of a function, or None where it is left out. KeyError: nobody has said what they are."""
    base = function
    while base not in FORMS and base not in LEFT_OUT:
        shorter = base.removesuffix("_ptsz")
        shorter = shorter[:-3] if shorter == base and base[-3:-1] == "_v" else shorter
        if shorter == base:
            raise KeyError(f"{function} is hooked, and wrong_calls.py does not say what its arguments are")
        base = shorter
    return FORMS[base].split() if base in FORMS else None


def functions():
    """The hooked functions that are called."""
    hooked = [line.split("\t")[0] for line in TABLE.read_text().splitlines() if line.endswith("\thook")]
    return [function for function in hooked if form_of(function) is not None]


def cases(function):
    """Lists of argument values, one for each wrong value of each argument, and one where all are good."""
    words = [word.replace("_", " ") for word in form_of(function)]
    good = [WORDS[word][0] for word in words]
    yield "good", good
    for place, word in enumerate(words):
        for wrong in WORDS[word][1]:
            yield f"{place}:{wrong}", good[:place] + [wrong] + good[place + 1:]


class Scene:
    """A process that has a context and one of everything."""

    def __init__(self, state):
        self.cuda, self.outs, self.keep = ctypes.CDLL("libcuda.so.1"), [], []
        self.values = {"pid": os.getpid(), "descriptor": -1, "properties": self.bytes(b"\x01\0\0\0" b"\x01\0\0\0" b"\x01\0\0\0" b"\0\0\0\0", 64),
                       "of no type": self.bytes(b"\x63\0\0\0" b"\x01\0\0\0" b"\x01\0\0\0" b"\0\0\0\0", 64),
                       "of device 1": self.bytes(b"\x01\0\0\0" b"\x01\0\0\0" b"\x01\0\0\0" b"\x01\0\0\0", 64),
                       "of device -1": self.bytes(b"\x01\0\0\0" b"\x01\0\0\0" b"\x01\0\0\0" b"\xff\xff\xff\xff", 64),
                       "pool properties": self.bytes(b"\x01\0\0\0" b"\0\0\0\0" b"\x01\0\0\0" b"\0\0\0\0", 96), "no ipc": self.bytes(b"x" * 64, 64),
                       "array 2d": self.bytes((64).to_bytes(8, "little") * 2 + b"\x20\0\0\0\x01\0\0\0", 64), "empty array": self.bytes(b"", 64),
                       "array of no format": self.bytes((64).to_bytes(8, "little") * 2 + b"\x63\0\0\0\x01\0\0\0", 64),
                       "array 3d": self.bytes((64).to_bytes(8, "little") * 3 + b"\x20\0\0\0\x01\0\0\0", 64), "no data": self.bytes(b"no image", 4096),
                       "no file": self.bytes(b"/nowhere/at/all\0", 64), NULL: 0, "unaligned": 0}
        if state == "no card":
            assert self.cuda.cuInit(0) == 100
        if state in ("before init", "no card"):
            self.values.update(dict.fromkeys(("block", "middle", "freed", "managed", "mapped", "reserved", "handle", "released", "array", "context",
                                              "destroyed", "pool", "graph", "exec"), 0), ipc=self.values["no ipc"])
            return
        assert self.cuda.cuInit(0) == 0
        context = self.make("cuDevicePrimaryCtxRetain", 0)
        assert self.cuda.cuCtxSetCurrent(ctypes.c_void_p(context)) == 0
        made, size, value = self.make, ctypes.c_size_t(2 << 20), ctypes.c_uint64
        self.values.update(block=made("cuMemAlloc_v2", size), freed=made("cuMemAlloc_v2", size), managed=made("cuMemAllocManaged", size, 1),
                           handle=made("cuMemCreate", size, value(self.values["properties"]), value(0)), pool=made("cuDeviceGetDefaultMemPool", 0),
                           reserved=made("cuMemAddressReserve", size, size, value(0), value(0)), mapped=made("cuMemAddressReserve", size, size, value(0), value(0)),
                           array=made("cuArrayCreate_v2", value(self.values["array 2d"])), graph=made("cuGraphCreate", 0), context=made("cuCtxCreate_v2", 0, 0))
        self.values["destroyed"], self.values["released"] = made("cuCtxCreate_v2", 0, 0), made("cuMemCreate", size, value(self.values["properties"]), value(0))
        self.values["exec"] = made("cuGraphInstantiateWithFlags", value(self.values["graph"]), value(0))
        assert self.cuda.cuMemFree_v2(value(self.values["freed"])) == 0 and self.cuda.cuMemMap(value(self.values["mapped"]), size, value(0), value(self.values["handle"]), value(0)) == 0
        assert self.cuda.cuCtxDestroy_v2(value(self.values["destroyed"])) == 0 and self.cuda.cuMemRelease(value(self.values["released"])) == 0
        self.values.update(middle=self.values["block"] + 4096, unaligned=self.values["reserved"] + 4096)
        handle = self.bytes(b"", 64)
        assert self.cuda.cuIpcGetMemHandle(value(handle), value(self.values["block"])) == 0
        self.values["ipc"] = handle
        while self.cuda.cuCtxPopCurrent_v2(None) == 0: pass
        assert self.cuda.cuCtxSetCurrent(value(0 if state == "no context" else context)) == 0

    def bytes(self, content, size):
        buffer = ctypes.create_string_buffer(content, size)
        self.keep.append(buffer)
        return ctypes.addressof(buffer)

    def make(self, function, *arguments):
        out = ctypes.c_uint64()
        assert getattr(self.cuda, function)(ctypes.byref(out), *arguments) == 0, function
        return out.value

    def argument(self, value):
        if value == OUT:
            self.outs.append(ctypes.create_string_buffer(b"\xa5" * 64, 64))
            return ctypes.c_uint64(ctypes.addressof(self.outs[-1]))
        value = self.values.get(value, value) if isinstance(value, str) else value
        return ctypes.c_uint64(value & BIG)

    def call(self, function, values):
        arguments = [self.argument(value) for value in values]
        if "ipc" in values or "no ipc" in values:  # passed by value
            at = next(place for place, value in enumerate(values) if value in ("ipc", "no ipc"))
            if function.startswith("cuIpc"):
                handle = (ctypes.c_ubyte * 64).from_address(arguments[at].value)
                wrapper = type("Handle", (ctypes.Structure,), {"_fields_": [("bytes", ctypes.c_ubyte * 64)]})
                arguments[at] = wrapper.from_buffer_copy(bytes(handle))
        before = self.free()
        result = getattr(self.cuda, function)(*arguments)
        return [result, [bool(out.raw == b"\xa5" * 64) for out in self.outs], "lost memory" if result and self.free() < before else "as before"]

    def free(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        return self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), free.value


def outcome(function, values, state):
    """What the call answers and which outputs it leaves as they were, or the signal that it ends with."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            os.write(writing, json.dumps(Scene(state).call(function, values)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else f"ended by signal {os.WTERMSIG(status)}"


if __name__ == "__main__":
    told = {}
    for function in functions():
        for state in ("ready", "no context", "before init"):
            for name, values in cases(function):
                told[f"{function} {state} {name}"] = outcome(function, values, state)
    print(json.dumps(told))
