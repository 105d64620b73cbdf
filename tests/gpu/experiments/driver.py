"""The driver and NVML by ctypes, and what the experiments do with them. Every failing call raises CallFailed."""
import ctypes
import functools
import os
import time

from . import GIB, MIB, NotPossible

OUT_OF_MEMORY, NOT_FOUND = 2, 500
STACK_LIMIT = 0
POOL_RESERVED, POOL_THRESHOLD = 5, 4
GRAPH_RESERVED = 2


class CallFailed(Exception):
    def __init__(self, function, number):
        super().__init__(f"{function} answered {number}")
        self.function, self.number = function, number


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class AllocationProperties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("windows", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class PoolProperties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("windows", ctypes.c_void_p), ("most", ctypes.c_size_t),
                ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 54)]


class AllocationNode(ctypes.Structure):
    _fields_ = [("pool", PoolProperties), ("access", ctypes.c_void_p), ("access_count", ctypes.c_size_t), ("size", ctypes.c_size_t), ("address", ctypes.c_uint64)]


class ArrayDescriptor(ctypes.Structure):
    _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("format", ctypes.c_int), ("channels", ctypes.c_uint)]


class IpcHandle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Library:
    """A shared library whose functions answer 0 or the number of an error."""

    def __init__(self, *names):
        for name in names:
            try:
                self.library = ctypes.CDLL(name)
                return
            except OSError as error:
                problem = error
        raise NotPossible(str(problem))

    def answer(self, function, *arguments):
        """Its error. Numbers are passed as 64 bits, of which a function that wants fewer takes the lower ones."""
        try:
            entry = getattr(self.library, function)
        except AttributeError:
            return NOT_FOUND
        return entry(*[ctypes.c_int64(each) if isinstance(each, int) else each for each in arguments])

    def call(self, function, *arguments):
        error = self.answer(function, *arguments)
        if error != 0:
            raise CallFailed(function, error)

    def has(self, function):
        return hasattr(self.library, function)

    def get(self, kind, function, *arguments):
        """What it stores where its first argument points to."""
        value = kind()
        self.call(function, ctypes.byref(value), *arguments)
        return value.value


class Gpu(Library):
    """The first device, by the driver API. What returns plain values can be asked of an actor, too."""

    def __init__(self):
        super().__init__("libcuda.so.1")
        self.blocks = []

    # Contexts.
    def init(self):
        """Without a context."""
        self.call("cuInit", 0)

    def open(self):
        self.init()
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)
        return self

    def pid(self):
        return os.getpid()

    def version(self):
        return self.get(ctypes.c_int, "cuDriverGetVersion")

    def uuid(self):
        raw = (ctypes.c_ubyte * 16)()
        if self.answer("cuDeviceGetUuid_v2", raw, 0) != 0:
            self.call("cuDeviceGetUuid", raw, 0)
        text = bytes(raw).hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def attribute(self, number):
        return self.get(ctypes.c_int, "cuDeviceGetAttribute", number, 0)

    def threads(self):
        """How many can be resident at once."""
        return self.attribute(16) * self.attribute(39)  # multiprocessors, threads of each

    def info(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return [free.value, total.value]

    def synchronize(self):
        self.call("cuCtxSynchronize")

    def active(self):
        flags, active = ctypes.c_uint(), ctypes.c_int()
        self.call("cuDevicePrimaryCtxGetState", 0, ctypes.byref(flags), ctypes.byref(active))
        return active.value

    def reset(self):
        self.call("cuDevicePrimaryCtxReset_v2", 0)

    # Plain memory. Addresses are kept, and freed by their place in the list.
    def allocate(self, size):
        self.blocks.append(self.get(ctypes.c_uint64, "cuMemAlloc_v2", size))
        return self.blocks[-1]

    def allocate_many(self, count, size):
        for _ in range(count):
            self.allocate(size)

    def allocate_as_much_as_possible(self, step):
        """In pieces of that size, then of smaller ones, down to 16 MiB; the bytes taken."""
        taken = 0
        while step >= 16 * MIB:
            try:
                self.allocate(step)
                taken += step
            except CallFailed as failed:
                if failed.number != OUT_OF_MEMORY:
                    raise
                step //= 2
        return taken

    def managed(self, size):
        self.blocks.append(self.get(ctypes.c_uint64, "cuMemAllocManaged", size, 1))
        return self.blocks[-1]

    def prefetch(self, size):
        self.call("cuMemPrefetchAsync", self.blocks[-1], size, 0, None)
        self.synchronize()

    def paged(self, size):
        """Seconds to bring that much managed memory to the device and back to the host: `asked` for (prefetched), and where it is touched."""
        address = self.managed(size)
        seconds = {}

        def timed(name, work):
            start = time.perf_counter()
            work()
            self.synchronize()
            seconds[name] = time.perf_counter() - start
        for _ in range(2):  # the first time, the host's pages are made
            timed("asked, to the device", lambda: self.call("cuMemPrefetchAsync", address, size, 0, None))
            timed("asked, to the host", lambda: self.call("cuMemPrefetchAsync", address, size, -1, None))
        timed("touched by the device", lambda: self.call("cuMemsetD8_v2", address, 1, size))
        timed("touched by the host", lambda: ctypes.memset(address, 2, size))
        self.free()
        return seconds

    def free(self):
        self.call("cuMemFree_v2", self.blocks.pop())

    def free_all(self):
        while self.blocks:
            self.free()

    def forget(self):
        """What was taken is gone with its context."""
        self.blocks.clear()

    def mark(self):
        """A pattern at the beginning of each block."""
        for address in self.blocks:
            self.call("cuMemcpyHtoD_v2", address, ctypes.byref(ctypes.c_uint64(address ^ 0x5eed)), 8)

    def marked(self):
        return all(self.get(ctypes.c_uint64, "cuMemcpyDtoH_v2", address, 8) == address ^ 0x5eed for address in self.blocks)

    def arrays(self, count, width, height):
        kept = ctypes.c_void_p()
        for _ in range(count):
            self.call("cuArrayCreate_v2", ctypes.byref(kept), ctypes.byref(ArrayDescriptor(width, height, 0x20, 1)))  # 32-bit floats

    # Shared memory.
    def publish(self):
        handle = IpcHandle()
        self.call("cuIpcGetMemHandle", ctypes.byref(handle), self.blocks[-1])
        return bytes(handle.bytes).hex()

    def open_published(self, text):
        self.imported = self.get(ctypes.c_uint64, "cuIpcOpenMemHandle_v2", IpcHandle((ctypes.c_ubyte * 64)(*bytes.fromhex(text))), 1)

    def close_published(self):
        self.call("cuIpcCloseMemHandle", self.imported)

    def create(self, size):
        """By virtual memory management, such that a descriptor of it can be exported; not mapped."""
        self.size = self.round_up(size)
        self.handle = self.get(ctypes.c_uint64, "cuMemCreate", self.size, ctypes.byref(self.shareable()), 0)
        return self.size

    @staticmethod
    def shareable():
        return AllocationProperties(type=1, handles=1, location=Location(1, 0))

    def round_up(self, size):
        step = self.get(ctypes.c_size_t, "cuMemGetAllocationGranularity", ctypes.byref(self.shareable()), 0)
        return (size + step - 1) // step * step

    def export_descriptor(self):
        return self.get(ctypes.c_int, "cuMemExportToShareableHandle", self.handle, 1, 0)

    def import_descriptor(self, descriptor):
        self.handle = self.get(ctypes.c_uint64, "cuMemImportFromShareableHandle", ctypes.c_void_p(descriptor), 1)

    def release(self):
        self.call("cuMemRelease", self.handle)

    def map(self):
        self.mapped = self.get(ctypes.c_uint64, "cuMemAddressReserve", self.size, 0, 0, 0)
        self.call("cuMemMap", self.mapped, self.size, 0, self.handle, 0)
        self.call("cuMemSetAccess", self.mapped, self.size, ctypes.byref(Access(Location(1, 0), 3)), 1)

    def unmap(self):
        self.call("cuMemUnmap", self.mapped, self.size)
        self.call("cuMemAddressFree", self.mapped, self.size)

    # Pools and graphs.
    def pool(self):
        return ctypes.c_void_p(self.get(ctypes.c_void_p, "cuDeviceGetDefaultMemPool", 0))

    def pool_attribute(self, number):
        return self.get_attribute("cuMemPoolGetAttribute", self.pool(), number)

    def get_attribute(self, function, holder, number):
        value = ctypes.c_uint64()
        self.call(function, holder, number, ctypes.byref(value))
        return value.value

    def allocate_async(self, size):
        self.blocks.append(self.get(ctypes.c_uint64, "cuMemAllocAsync", size, None))
        return self.blocks[-1]

    def give_back_in_order(self):
        """A plain block, by the function for blocks of pools."""
        self.call("cuMemFreeAsync", self.blocks.pop(), None)
        self.synchronize()

    def free_async(self):
        self.call("cuMemFreeAsync", self.blocks.pop(), None)

    # Code. Its text is PTX for every card; ptxas of CUDA 12.9 and 13.5 translates it for any of theirs.
    HEAD = b".version 6.0\n.target sm_50\n.address_size 64\n"

    def load(self, code):
        """The module of such a text, or of a cubin."""
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), code if code.startswith(b"\x7fELF") else self.HEAD + code + b"\0")
        return module

    def link(self, text):
        """The cubin of such a text."""
        state, image, length = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        code = self.HEAD + text + b"\0"
        self.call("cuLinkCreate_v2", 0, None, None, ctypes.byref(state))
        self.call("cuLinkAddData_v2", state, 1, code, len(code), b"text", 0, None, None)
        self.call("cuLinkComplete", state, ctypes.byref(image), ctypes.byref(length))
        cubin = ctypes.string_at(image, length.value)
        self.call("cuLinkDestroy", state)
        return cubin

    def function(self, module, name):
        return ctypes.c_void_p(self.get(ctypes.c_void_p, "cuModuleGetFunction", module, name.encode()))

    def launch(self, function, *arguments):
        held = [ctypes.c_uint64(each) for each in arguments]
        pointers = (ctypes.c_void_p * max(1, len(held)))(*[ctypes.addressof(each) for each in held])
        self.call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, None, ctypes.cast(pointers, ctypes.c_void_p), None)
        self.synchronize()

    # Checkpoints.
    def state(self, pid):
        """0 running, 1 locked, 2 checkpointed, 3 failed."""
        number = ctypes.c_int(-1)
        self.call("cuCheckpointProcessGetState", pid, ctypes.byref(number))
        return number.value

    def move(self, action, pid):
        """`Lock`, `Checkpoint`, `Restore` or `Unlock`: milliseconds."""
        start = time.perf_counter()
        arguments = (ctypes.c_uint * 16)(20000) if action == "Lock" else None  # a lock waits so long at most, in ms
        self.call("cuCheckpointProcess" + action, pid, arguments)
        return (time.perf_counter() - start) * 1000

    def become(self, user):
        """Another user, whose processes can be looked at as any other's."""
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE


class ManagedProcess(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_uint64), ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


class MemoryOfDevice(ctypes.Structure):
    _fields_ = [("total", ctypes.c_uint64), ("free", ctypes.c_uint64), ("used", ctypes.c_uint64)]


class Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class GroupLimits(ctypes.Structure):
    """nvmlMemoryLimits_v1_t, as nvml.h of CUDA 13.4 has it for what is asked."""
    _fields_ = [("path", ctypes.c_char_p), ("soft", ctypes.c_uint64), ("hard", ctypes.c_uint64), ("used", ctypes.c_uint64)]


class Nvml(Library):
    """NVML's view of the first device of the driver."""

    NOT_SUPPORTED, NOT_FOUND = 3, 6

    def __init__(self):
        super().__init__("libnvidia-ml.so.1")
        gpu = Gpu()
        gpu.init()
        self.call("nvmlInit_v2")
        self.device = ctypes.c_void_p()
        for kind in ("GPU-", "MIG-"):
            if self.answer("nvmlDeviceGetHandleByUUID", (kind + gpu.uuid()).encode(), ctypes.byref(self.device)) == 0:
                return
        raise NotPossible("NVML does not know the driver's first device")

    def text(self, function, *arguments):
        text = ctypes.create_string_buffer(96)
        self.call(function, *arguments, text, 96)
        return text.value.decode()

    def driver(self):
        return self.text("nvmlSystemGetDriverVersion")

    def name(self):
        return self.text("nvmlDeviceGetName", self.device)

    def memory(self):
        memory = MemoryOfDevice()
        if self.answer("nvmlDeviceGetMemoryInfo", self.device, ctypes.byref(memory)) == self.NOT_SUPPORTED:
            raise NotPossible("NVML does not tell this device's memory")
        return memory

    def used(self):
        return self.memory().used

    def processes(self):
        """Bytes of each listed process; None: `not available`."""
        count, listed = ctypes.c_uint(256), (ManagedProcess * 256)()
        self.call("nvmlDeviceGetComputeRunningProcesses_v3", self.device, ctypes.byref(count), listed)
        return {str(each.pid): None if each.bytes == 2**64 - 1 else each.bytes for each in listed[:count.value]}

    def of(self, pid):
        """Bytes of one process; None: it is not listed, or without them."""
        return self.processes().get(str(pid)) or None

    def utilisation(self):
        rates = Utilisation()
        return self.answer("nvmlDeviceGetUtilizationRates", self.device, ctypes.byref(rates))

    def persistence(self):
        mode = ctypes.c_uint()
        return bool(mode.value) if self.answer("nvmlDeviceGetPersistenceMode", self.device, ctypes.byref(mode)) == 0 else None

    def group_limits(self):
        """Whether this driver has limits of cgroups."""
        with open("/proc/self/cgroup") as file:
            path = "/sys/fs/cgroup" + file.read().splitlines()[-1].split(":", 2)[2]
        return self.answer("nvmlDeviceGetMemoryLimits_v1", self.device, ctypes.byref(GroupLimits(path.encode()))) in (0, self.NOT_FOUND)


@functools.lru_cache(maxsize=None)
def total():
    """Of the device, as who is held to no limit sees it."""
    gpu = Gpu()
    gpu.init()
    return gpu.get(ctypes.c_size_t, "cuDeviceTotalMem_v2", 0)


def piece(most=GIB, part=8):
    """So many bytes as experiments take at once: no more than that, nor than a part of what is free."""
    memory = Nvml().memory()
    return min(most, memory.free // part // (2 * MIB) * (2 * MIB))
