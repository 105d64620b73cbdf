"""Calls every hooked function of the driver with wrong arguments and prints what came of it as JSON.

Run by wrong_calls_test.py, under `ration run` and without it; tests/nvidia uses its scene on a driver that finds no card. `form_of(function)`
returns the arguments of a function; a hooked function that stands in no form is an error. With one of everything each call has a process of its own.
As `wrong_calls.py held CARDS` a process holds memory of each kind, makes all calls of one function, tells the figures of the cards, frees all and tells them again.
"""
import ctypes
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
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
    "module": ("module", [0]),
    "library": ("library", [0]),
    "event": ("event", [0]),
    "location": ("location", ["of no type by value", "of device 1 by value", "of device -1 by value"]),
    "location in memory": ("location in memory", [NULL, "location of no type", "location of device 1", "location of device -1"]),
    "ranges": ("ranges", [NULL, "no ranges", "ranges of a block"]),
    "sizes": ("sizes", [NULL, "no sizes"]),
    "indices": ("indices", [NULL, "wrong indices"]),
    "instantiation": ("instantiation", [NULL, "instantiation of no kind"]),
    "external": ("external", [NULL]),
    "multicast": ("multicast", [NULL]),
    "type": (1, [0, 77]),
}
# Each word's wrong values beside its own, in a process that holds memory: the key of every kind, live and freed, and what is a key of none.
KEYED = ("address", "range", "mapped", "reserved", "handle", "array", "context", "pool", "graph", "exec", "module", "library", "event")
# Function without its variants -> its arguments.
FORMS = {
    "cuMemAlloc": "out size", "cuMemAllocPitch": "out out side side element", "cuMemAllocManaged": "out size one", "cuMemFree": "address",
    "cuMemAllocHost": "out size", "cuMemHostAlloc": "out size flags", "cuMemFreeHost": "address", "cuMemHostRegister": "data size flags", "cuMemHostUnregister": "address",
    "cuMemAllocAsync": "out size stream", "cuMemAllocFromPoolAsync": "out size pool stream", "cuMemFreeAsync": "address stream",
    "cuMemCreate": "out size properties flags", "cuMemRelease": "handle", "cuMemMap": "reserved size zero handle flags", "cuMemUnmap": "mapped size",
    "cuMemRetainAllocationHandle": "out mapped", "cuMemExportToShareableHandle": "out handle one flags", "cuMemImportFromShareableHandle": "out descriptor one",
    "cuIpcGetMemHandle": "out address", "cuIpcOpenMemHandle": "out ipc one", "cuIpcCloseMemHandle": "address", "cuIpcGetEventHandle": "out event",
    "cuIpcOpenEventHandle": "out ipc", "cuArrayCreate": "out array_2d", "cuArray3DCreate": "out array_3d", "cuMipmappedArrayCreate": "out array_3d one",
    "cuArrayDestroy": "array", "cuMipmappedArrayDestroy": "array", "cuCtxCreate": "out flags device", "cuGLCtxCreate": "out flags device", "cuCtxDestroy": "context", "cuCtxDetach": "context",
    "cuCtxAttach": "out flags", "cuCtxSetLimit": "limit size", "cuCtxSynchronize": "", "cuCtxSynchronize_v2": "context", "cuDevicePrimaryCtxRetain": "out device",
    "cuDevicePrimaryCtxRelease": "device", "cuDevicePrimaryCtxReset": "device", "cuDeviceTotalMem": "out device", "cuDeviceGraphMemTrim": "device",
    "cuMemGetInfo": "out out", "cuMemAdvise": "range size one device", "cuMemPrefetchAsync": "range size device stream", "cuMemMapArrayAsync": "zero zero stream",
    "cuMemPoolCreate": "out pool_properties", "cuMemPoolDestroy": "pool", "cuMemPoolTrimTo": "pool size", "cuMemPoolSetAttribute": "pool limit out",
    "cuMemPoolExportPointer": "out address", "cuMemPoolExportToShareableHandle": "out pool one flags", "cuMemPoolImportFromShareableHandle": "out descriptor one flags",
    "cuMemPoolImportPointer": "out pool ipc", "cuEventSynchronize": "event", "cuDeviceSetMemPool": "device pool", "cuStreamEndCapture": "stream out", "cuStreamSynchronize": "stream", "cuGraphLaunch": "exec stream",
    "cuGraphUpload": "exec stream", "cuGraphExecDestroy": "exec", "cuGraphInstantiate": "out graph out out size", "cuGraphInstantiate_v2": "out graph out out size",
    "cuGraphInstantiateWithFlags": "out graph flags", "cuModuleLoad": "out name", "cuModuleLoadData": "out data", "cuModuleLoadDataEx": "out data zero zero zero",
    "cuModuleUnload": "module", "cuLibraryUnload": "library", "cuLibraryLoadData": "out data zero zero zero zero zero zero",
    "cuLibraryLoadFromFile": "out name zero zero zero zero zero zero", "cuModuleLoadFatBinary": "out data", "cuLibraryGetManaged": "out out library name",
    "cuCtxCreate_v3": "out zero zero flags device", "cuCtxCreate_v4": "out zero flags device",
    "cuMemAdvise_v2": "range size one location", "cuMemPrefetchAsync_v2": "range size location flags stream",
    "cuMemPrefetchBatchAsync": "ranges sizes one location_in_memory indices one flags stream", "cuMemDiscardAndPrefetchBatchAsync": "ranges sizes one location_in_memory indices one flags stream",
    "cuGraphInstantiateWithParams": "out graph instantiation", "cuMemGetDefaultMemPool": "out location_in_memory type", "cuMemGetMemPool": "out location_in_memory type",
    "cuMemSetMemPool": "location_in_memory type pool", "cuImportExternalMemory": "out external", "cuMemGetHandleForAddressRange": "out range size type flags",
    "cuMulticastCreate": "out multicast", "cuMulticastBindAddr": "handle zero mapped size flags", "cuMulticastBindMem": "handle zero handle zero size flags",
    "cuMulticastBindAddr_v2": "handle device zero mapped size flags", "cuMulticastBindMem_v2": "handle device zero handle zero size flags", "cuMulticastUnbind": "handle device zero size",
}
# Not called with wrong arguments, and why.
LEFT_OUT = {"cuGetProcAddress": "guard_routes tests every argument", "cuVDPAUCtxCreate": "the simulator has no video interface, and says so before anything else"}


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


def cases(function, keys=()):
    """Lists of argument values, one for each wrong value of each argument, and one where all are good. `keys`: names of values of all kinds."""
    words = [word.replace("_", " ") for word in form_of(function)]
    good = [WORDS[word][0] for word in words]
    yield "good", good
    for place, word in enumerate(words):
        for wrong in [*WORDS[word][1], *(keys if word in KEYED else ())]:
            yield f"{place}:{wrong}", good[:place] + [wrong] + good[place + 1:]


MOST_SECONDS = 30  # a process that takes longer hangs, and is ended by a signal
# An image of code with a variable of 1 MiB.
CODE = (b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64, 0, 64, 0, 0, 64, 1, 0)
        + struct.pack("<IIQQQQIIQQ", 0, 8, 3, 0, 64, 1 << 20, 0, 0, 256, 0))


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
                       "no file": self.bytes(b"/nowhere/at/all\0", 64), NULL: 0, "unaligned": 0,
                       "location": 1, "of no type by value": 99, "of device 1 by value": 1 | 1 << 32, "of device -1 by value": 1 | 0xffffffff << 32,
                       "location in memory": self.bytes(struct.pack("2i", 1, 0), 64), "location of no type": self.bytes(struct.pack("2i", 99, 0), 64),
                       "location of device 1": self.bytes(struct.pack("2i", 1, 1), 64), "location of device -1": self.bytes(struct.pack("2i", 1, -1), 64),
                       "no ranges": self.bytes(b"", 64), "sizes": self.bytes(struct.pack("Q", 2 << 20), 64), "no sizes": self.bytes(b"", 64), "indices": self.bytes(b"", 64),
                       "wrong indices": self.bytes(struct.pack("Q", 99), 64), "instantiation": self.bytes(b"", 64), "instantiation of no kind": self.bytes(b"\xff" * 8, 64),
                       "external": self.bytes(struct.pack("2i", 1, 0), 128), "multicast": self.bytes(struct.pack("I4xQ", 1, 2 << 20), 64)}
        if state == "no card":
            assert self.cuda.cuInit(0) == 100
        if state in ("before init", "no card"):
            self.values.update(dict.fromkeys(("block", "middle", "freed", "managed", "mapped", "reserved", "handle", "released", "array", "context",
                                              "destroyed", "pool", "graph", "exec", "module", "library", "event"), 0), ipc=self.values["no ipc"])
            self.values.update({"ranges": self.values["no ranges"], "ranges of a block": self.values["no ranges"]})
            return
        assert self.cuda.cuInit(0) == 0
        context = self.make("cuDevicePrimaryCtxRetain", 0)
        assert self.cuda.cuCtxSetCurrent(ctypes.c_void_p(context)) == 0
        self.begin()
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
        image = value(self.bytes(CODE, 4096))
        self.values.update({"module": made("cuModuleLoadData", image), "library": made("cuLibraryLoadData", image, *[value(0)] * 6), "event": made("cuEventCreate", 0)})
        for name, of in (("ranges", "managed"), ("ranges of a block", "block")):
            self.values[name] = self.bytes(struct.pack("Q", self.values[of]), 64)
        while self.cuda.cuCtxPopCurrent_v2(None) == 0: pass
        assert self.cuda.cuCtxSetCurrent(value(0 if state == "no context" else context)) == 0

    def begin(self):
        """Called with a context, before anything else is made."""

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
        self.outs = []
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


class Held(Scene):
    """A process that holds memory of each kind, more than one of each, and that has freed some of each again. `keys`: the names of its values."""

    MANY = 80  # of small ones: every part of each of the guard's tables has entries
    # What gives a value back, the users of memory first. Each is called with every value when all is freed.
    RELEASES = ("cuGraphExecDestroy", "cuGraphDestroy", "cuMemFreeAsync", "cuMemPoolDestroy", "cuIpcCloseMemHandle", "cuMemFree_v2", "cuArrayDestroy", "cuMipmappedArrayDestroy",
                "cuMemRelease", "cuModuleUnload", "cuLibraryUnload", "cuMemFreeHost", "cuMemHostUnregister", "cuCtxDestroy_v2")

    def __init__(self, cards, neighbour):
        self.cards, self.made = cards, []
        super().__init__("ready")
        self.given = []  # what calls wrote
        own = set(self.values)
        assert self.cuda.cuMemPrefetchAsync(ctypes.c_uint64(self.values["managed"]), ctypes.c_size_t(2 << 20), 0, ctypes.c_uint64(0)) == 0
        for card, context in enumerate(self.contexts):
            assert self.cuda.cuCtxSetCurrent(ctypes.c_uint64(context)) == 0
            self.hold(f" of card {card}" if card else "", card, neighbour)
        assert self.cuda.cuCtxSetCurrent(ctypes.c_uint64(self.contexts[0])) == 0
        self.keys = [1, 0xdead0000, *sorted(set(self.values) - own), "block", "freed", "managed", "mapped", "reserved", "handle", "released", "array", "context", "destroyed",
                     "pool", "graph", "exec", "module", "library", "event"]

    def call(self, function, values):
        told = super().call(function, values)
        self.given += [int.from_bytes(out.raw[:8], "little") for out in self.outs if out.raw != b"\xa5" * 64]
        return told

    def begin(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        assert self.nvml.nvmlInit_v2() == 0
        self.contexts = [self.make("cuDevicePrimaryCtxRetain", card) for card in range(self.cards)]
        self.at_first = self.figures()

    def hold(self, of, card, neighbour):
        made, value, size, cuda = self.make, ctypes.c_uint64, ctypes.c_size_t, self.cuda
        large, small = size(2 << 20), size(700)
        handles = self.bytes(struct.pack("4i", 1, 1, 1, card), 64)  # for descriptors
        pools = self.bytes(struct.pack("4i", 1, 1, 1, card), 96)
        flat, deep, image = value(self.values["array 2d"]), value(self.values["array 3d"]), value(self.bytes(CODE, 4096))

        def keep(name, make, free, count=3):
            """So many of a kind; the second of two are freed again, and `name freed` is one of those."""
            all_of_it = [make() for _ in range(count)]
            for one in all_of_it[1::2]:
                assert free(one) == 0, name
            self.values[f"{name}{of}"], self.values[f"{name}{of} freed"] = all_of_it[0], all_of_it[1]
            self.made += all_of_it

        def call(function, *more):
            return lambda one: getattr(cuda, function)(value(one), *more)

        def from_a_pool():
            pool = made("cuMemPoolCreate", value(pools))
            cuda.cuMemFreeAsync(value(made("cuMemAllocFromPoolAsync", small, value(pool), value(0))), value(0))
            return pool

        def on_the_card():
            address = made("cuMemAllocManaged", large, 1)
            assert cuda.cuMemPrefetchAsync(value(address), large, card, value(0)) == 0
            return address
        keep("plain", lambda: made("cuMemAlloc_v2", large), call("cuMemFree_v2"), self.MANY)
        keep("small", lambda: made("cuMemAlloc_v2", small), call("cuMemFree_v2"), self.MANY)
        keep("shared", on_the_card, call("cuMemFree_v2"))
        keep("stream-ordered", lambda: made("cuMemAllocAsync", small, value(0)), call("cuMemFreeAsync", value(0)), self.MANY)
        keep("own pool", from_a_pool, call("cuMemPoolDestroy"), 2 * self.MANY if not card else 3)
        own_pool = self.values[f"own pool{of}"]
        keep("block of a pool", lambda: made("cuMemAllocFromPoolAsync", small, value(own_pool), value(0)), call("cuMemFreeAsync", value(0)))
        keep("physical", lambda: made("cuMemCreate", large, value(handles), value(0)), call("cuMemRelease"), self.MANY)
        keep("flat", lambda: made("cuArrayCreate_v2", flat), call("cuArrayDestroy"))
        keep("deep", lambda: made("cuArray3DCreate_v2", deep), call("cuArrayDestroy"))
        keep("mipmapped", lambda: made("cuMipmappedArrayCreate", deep, 3), call("cuMipmappedArrayDestroy"))
        self.values[f"level{of}"] = made("cuMipmappedArrayGetLevel", value(self.values[f"mipmapped{of}"]), 1)
        keep("pinned", lambda: made("cuMemHostAlloc", large, 0), call("cuMemFreeHost"))
        pages = ctypes.create_string_buffer(4 << 12)
        self.keep.append(pages)
        assert cuda.cuMemHostRegister_v2(value(ctypes.addressof(pages)), size(4 << 12), 0) == 0
        self.values[f"registered{of}"] = ctypes.addressof(pages)
        keep("code", lambda: made("cuModuleLoadData", image), call("cuModuleUnload"))
        keep("codes", lambda: made("cuLibraryLoadData", image, *[value(0)] * 6), call("cuLibraryUnload"))
        # A mapping whose handle was released, and a handle that was retained and released once.
        mapping, handle = made("cuMemAddressReserve", large, large, value(0), value(0)), made("cuMemCreate", large, value(handles), value(0))
        assert cuda.cuMemMap(value(mapping), large, value(0), value(handle), value(0)) == 0
        assert made("cuMemRetainAllocationHandle", value(mapping)) == handle and cuda.cuMemRelease(value(handle)) == 0
        released = made("cuMemCreate", large, value(handles), value(0))
        at = made("cuMemAddressReserve", large, large, value(0), value(0))
        assert cuda.cuMemMap(value(at), large, value(0), value(released), value(0)) == 0 and cuda.cuMemRelease(value(released)) == 0
        self.values.update({f"mapping{of}": mapping, f"retained{of}": handle, f"mapping alone{of}": at, f"handle of a mapping{of}": released})
        self.made += [handle]
        # Graphs with memory: one that was launched and keeps it, and one that was instantiated.
        for name in ("launched", "instantiated"):
            graph, wanted = made("cuGraphCreate", 0), ctypes.create_string_buffer(struct.pack("4i", 1, 0, 1, card), 120)
            struct.pack_into("Q", wanted, 104, 2 << 20)
            made("cuGraphAddMemAllocNode", value(graph), value(0), size(0), wanted)
            executable = made("cuGraphInstantiateWithFlags", value(graph), value(0))
            if name == "launched":
                assert cuda.cuGraphLaunch(value(executable), value(0)) == 0
            self.values[f"block of graph {name}{of}"] = struct.unpack_from("Q", wanted, 112)[0]
            self.values.update({f"{name}{of}": executable, f"graph {name}{of}": graph})
            self.made += [executable, graph]
        # What another process holds.
        ipc, descriptor, pointer = neighbour[card]
        wrapper = type("Handle", (ctypes.Structure,), {"_fields_": [("bytes", ctypes.c_ubyte * 64)]})
        self.values[f"opened{of}"] = made("cuIpcOpenMemHandle_v2", wrapper.from_buffer_copy(ipc), 1)
        imported = self.values[f"imported pool{of}"] = made("cuMemPoolImportFromShareableHandle", value(descriptor), 1, value(0))
        self.values[f"imported block{of}"] = made("cuMemPoolImportPointer", value(imported), value(self.bytes(pointer, 64)))
        exported = ctypes.c_int()
        assert cuda.cuMemPoolExportToShareableHandle(ctypes.byref(exported), value(own_pool), 1, value(0)) == 0
        # Another context of the card, with a block in it.
        keep("second context", lambda: made("cuCtxCreate_v2", 0, card), call("cuCtxDestroy_v2"))
        assert cuda.cuCtxPushCurrent_v2(value(self.values[f"second context{of}"])) == 0
        self.values[f"block of a second context{of}"] = made("cuMemAlloc_v2", large)
        while cuda.cuCtxPopCurrent_v2(None) == 0: pass
        context = made("cuDevicePrimaryCtxRetain", card)
        assert cuda.cuDevicePrimaryCtxRelease_v2(card) == 0 and cuda.cuCtxSetCurrent(value(context)) == 0
        for name in ("plain", "small", "stream-ordered", "mapping", "opened"):
            self.values[f"middle of {name}{of}"] = self.values[f"{name}{of}"] + 256
        self.values[f"end of plain{of}"] = self.values[f"plain{of}"] + (2 << 20)

    def figures(self):
        """The bytes in use of each card."""
        told = []
        for card in range(self.cards):
            handle, memory = ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
            assert self.nvml.nvmlDeviceGetHandleByIndex_v2(card, ctypes.byref(handle)) == 0 and self.nvml.nvmlDeviceGetMemoryInfo(handle, memory) == 0
            told.append(memory[2])
        return told

    def free_all(self):
        value, values = ctypes.c_uint64, [*dict.fromkeys([*self.made, *self.values.values()])]
        self.cuda.cuCtxSetCurrent(value(self.contexts[0]))
        for name, address in self.values.items():
            if name.startswith("map") or name == "reserved":
                self.cuda.cuMemUnmap(value(address), ctypes.c_size_t(2 << 20))
        for function in self.RELEASES:
            for one in [*values, *self.given]:
                if one not in self.contexts:
                    getattr(self.cuda, function)(value(one), value(0))
        for card in range(self.cards):
            self.cuda.cuDeviceGraphMemTrim(card)
        self.cuda.cuCtxSynchronize()


def outcome(function, values, state):
    """What the call answers and which outputs it leaves as they were, or the signal that it ends with."""
    return told_by_a_child(lambda tell: tell(Scene(state).call(function, values)))[-1]


def told_by_a_child(work):
    """What a process tells that does this work, and last the signal that it ends with, where it does."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(MOST_SECONDS)
        try:
            work(lambda what: os.write(writing, json.dumps(what).encode() + b"\n"))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = [json.loads(line) for line in pipe]
    _, status = os.waitpid(child, 0)
    return told + ([f"ended by signal {os.WTERMSIG(status)}"] if os.WIFSIGNALED(status) else [])


def all_calls_of(function, cards, neighbour):
    """Makes all calls of a function in one process that holds memory of each kind: wrong ones first, for a good one may take away what they are tried on."""
    truth = [pathlib.Path(os.environ["BUILD_BIN"]) / "ration-sim-truth", "--json"]

    def work(tell):
        held = Held(cards, neighbour)

        def figures(name):
            devices = json.loads(subprocess.run(truth, capture_output=True, check=True).stdout)["devices"]
            tell([name, [held.figures(), [device["total_bytes"] - device["free_bytes"] for device in devices]]])
        figures("figures while held")
        for name, values in sorted(cases(function, held.keys), key=lambda case: case[0] == "good"):
            tell([name, "begun"])
            tell([name, held.call(function, values)])
        figures("figures after all calls")
        held.free_all()
        figures("figures when all is freed")
        tell(["figures at the beginning", [held.at_first]])
    *told, last = told_by_a_child(work)
    answers = {f"{function} {name}": answer for name, answer in told}
    name, answer = last if isinstance(last, list) else (told[-1][0], last)  # of the call that was under way, or the figures
    return {**answers, f"{function} {name}": answer}


def neighbour(cards):
    """Starts a process that lives as long as this one and holds, for each card, a block and a pool with one: the IPC handle of the block, a descriptor of the pool, the pointer."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        try:
            ours.close()
            cuda, value, size = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64, ctypes.c_size_t(2 << 20)
            assert cuda.cuInit(0) == 0
            for card in range(cards):
                context, address, pool, descriptor = value(), value(), value(), ctypes.c_int()
                ipc, pointer = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
                properties = ctypes.create_string_buffer(struct.pack("4i", 1, 1, 1, card), 96)
                answers = [cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), card), cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(address), size),
                           cuda.cuIpcGetMemHandle(ipc, address), cuda.cuMemPoolCreate(ctypes.byref(pool), properties),
                           cuda.cuMemAllocFromPoolAsync(ctypes.byref(address), size, pool, value(0)), cuda.cuMemPoolExportToShareableHandle(ctypes.byref(descriptor), pool, 1, value(0)),
                           cuda.cuMemPoolExportPointer(pointer, address)]
                assert not any(answers), answers
                socket.send_fds(its, [ipc.raw + pointer.raw], [descriptor.value])
            its.recv(1)
        finally:
            os._exit(0)
    its.close()
    told = [socket.recv_fds(ours, 128, 1) for _ in range(cards)]
    return ours, [(message[:64], descriptors[0], message[64:]) for message, descriptors, *_ in told]


if __name__ == "__main__":
    told = {}
    if sys.argv[1:2] == ["held"]:
        number = int(sys.argv[2])
        alive, exported = neighbour(number)
        for function in sys.argv[3:] or functions():
            told.update(all_calls_of(function, number, exported))
    else:
        for function in functions():
            for state in ("ready", "no context", "before init"):
                for name, values in cases(function):
                    told[f"{function} {state} {name}"] = outcome(function, values, state)
    print(json.dumps(told))
