"""A process on the simulated node in which a test's own lines run, with the driver's functions at hand.

Program, for tests: starts one behind `launcher`; `ask(lines)` runs them there and returns what they leave in `answer`. Run as a
program, it is the process.
"""
import ctypes
import json
import mmap
import subprocess
import sys
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

MIB = 1 << 20


class Program:
    def __init__(self, environment, launcher):
        self.process = subprocess.Popen([*launcher, sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, lines):
        self.process.stdin.write(json.dumps(lines) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.communicate()


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class PoolProperties(ctypes.Structure):
    _fields_ = [("kind", c_int), ("handles", c_int), ("location", Location), ("security", c_void_p), ("most", c_size_t), ("rest", ctypes.c_char * 56)]


class PhysicalProperties(ctypes.Structure):
    _fields_ = [("kind", c_int), ("handles", c_int), ("location", Location), ("security", c_void_p), ("flags", ctypes.c_char * 8)]


class AllocationNode(ctypes.Structure):
    _fields_ = [("pool", PoolProperties), ("access", c_void_p), ("accesses", c_size_t), ("bytes", c_size_t), ("address", c_uint64)]


class Instantiation(ctypes.Structure):
    _fields_ = [("flags", c_uint64), ("stream", c_void_p), ("node", c_void_p), ("result", c_int)]


assert ctypes.sizeof(PoolProperties) == 88 and ctypes.sizeof(AllocationNode) == 120
AUTO_FREE, UPLOAD = 1, 2
DEVICE, HOST, HOST_NUMA, HOST_NUMA_CURRENT = 1, 2, 3, 4
cuda = None


def start(devices=1):
    """The first device's context is the current one."""
    global cuda
    cuda = ctypes.CDLL("libcuda.so.1")
    assert cuda.cuInit(0) == 0
    for device in reversed(range(devices)):
        enter(device)


def enter(device):
    context = c_void_p()
    assert (cuda.cuDevicePrimaryCtxRetain(byref(context), device) or cuda.cuCtxSetCurrent(context)) == 0


def take(mib):
    """Plain memory of the current device: (error, address)."""
    address = c_uint64()
    return cuda.cuMemAlloc_v2(byref(address), c_size_t(int(mib * MIB))), address.value


def pin(mib):
    """Pinned host memory: (error, address)."""
    address = c_void_p()
    return cuda.cuMemHostAlloc(byref(address), c_size_t(int(mib * MIB)), 0), address.value


def unpin(address):
    return cuda.cuMemFreeHost(c_void_p(address))


def own_pages(mib, file=None):
    """The program's own memory, of a file or of none, and its address."""
    pages = mmap.mmap(file.fileno() if file else -1, int(mib * MIB))
    return pages, ctypes.addressof(ctypes.c_char.from_buffer(pages))


def register(address, mib, flags=0):
    return cuda.cuMemHostRegister_v2(c_void_p(address), c_size_t(int(mib * MIB)), flags)


def unregister(address):
    return cuda.cuMemHostUnregister(c_void_p(address))


def create(mib, kind=DEVICE, place=0):
    """Physical memory: (error, handle)."""
    handle, wanted = c_uint64(), PhysicalProperties(kind=1, location=Location(kind, place))
    return cuda.cuMemCreate(byref(handle), c_size_t(int(mib * MIB)), byref(wanted), c_uint64(0)), handle.value


def stream():
    made = c_void_p()
    assert cuda.cuStreamCreate(byref(made), 1) == 0
    return made


def pool(device=0, kind=DEVICE):
    made, wanted = c_void_p(), PoolProperties(kind=1, location=Location(kind, device))
    return cuda.cuMemPoolCreate(byref(made), byref(wanted)), made


def default_pool(device):
    found = c_void_p()
    assert cuda.cuDeviceGetDefaultMemPool(byref(found), device) == 0
    return found


def take_from(pool, mib, stream=None):
    address = c_uint64()
    return cuda.cuMemAllocFromPoolAsync(byref(address), c_size_t(int(mib * MIB)), pool, stream), address.value


def take_async(mib, stream=None):
    address = c_uint64()
    return cuda.cuMemAllocAsync(byref(address), c_size_t(int(mib * MIB)), stream), address.value


class Graph:
    def __init__(self):
        self.graph, self.executable = c_void_p(), c_void_p()
        assert cuda.cuGraphCreate(byref(self.graph), 0) == 0

    def take(self, mib, before=(), device=0):
        """(node, address)"""
        node, wanted = c_void_p(), AllocationNode(PoolProperties(kind=1, location=Location(DEVICE, device)), bytes=int(mib * MIB))
        assert cuda.cuGraphAddMemAllocNode(byref(node), self.graph, (c_void_p * len(before))(*before), c_size_t(len(before)), byref(wanted)) == 0
        return node.value, wanted.address

    def free(self, address, before=()):
        node = c_void_p()
        assert cuda.cuGraphAddMemFreeNode(byref(node), self.graph, (c_void_p * len(before))(*before), c_size_t(len(before)), c_uint64(address)) == 0
        return node.value

    def join(self, before):
        node = c_void_p()
        assert cuda.cuGraphAddEmptyNode(byref(node), self.graph, (c_void_p * len(before))(*before), c_size_t(len(before))) == 0
        return node.value

    def instantiate(self, flags=0):
        if flags & UPLOAD:
            return cuda.cuGraphInstantiateWithParams(byref(self.executable), self.graph, byref(Instantiation(flags)))
        return cuda.cuGraphInstantiateWithFlags(byref(self.executable), self.graph, c_uint64(flags))

    def upload(self, stream=None):
        return cuda.cuGraphUpload(self.executable, stream)

    def launch(self, stream=None):
        return cuda.cuGraphLaunch(self.executable, stream)

    def destroy(self):
        return cuda.cuGraphExecDestroy(self.executable) or cuda.cuGraphDestroy(self.graph)


def temporary(*sizes, device=0):
    """A graph whose allocations are alive together and are freed by it, ready to be launched."""
    graph = Graph()
    taken = [graph.take(mib, device=device) for mib in sizes]
    joined = graph.join([node for node, _ in taken])
    for _, address in taken:
        graph.free(address, [joined])
    assert graph.instantiate() == 0
    return graph


if __name__ == "__main__":
    for line in sys.stdin:
        answer = None
        exec(json.loads(line), globals())
        print(json.dumps(answer), flush=True)
