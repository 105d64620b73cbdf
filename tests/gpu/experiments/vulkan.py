"""A program that holds device memory by Vulkan: `python3 -m experiments.vulkan BYTES` says `holds`, or why not, and waits for its input to end."""
import ctypes
import sys

from .driver import Library

APPLICATION, INSTANCE, QUEUE, DEVICE, ALLOCATE = 0, 1, 2, 3, 5  # VkStructureType
NVIDIA, DEVICE_LOCAL = 0x10de, 1


class Application(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("next", ctypes.c_void_p), ("name", ctypes.c_char_p), ("version", ctypes.c_uint32), ("engine", ctypes.c_char_p),
                ("engine_version", ctypes.c_uint32), ("api", ctypes.c_uint32)]


class Instance(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("next", ctypes.c_void_p), ("flags", ctypes.c_uint32), ("application", ctypes.POINTER(Application)),
                ("layers", ctypes.c_uint32), ("layer_names", ctypes.c_void_p), ("extensions", ctypes.c_uint32), ("extension_names", ctypes.c_void_p)]


class Queue(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("next", ctypes.c_void_p), ("flags", ctypes.c_uint32), ("family", ctypes.c_uint32), ("count", ctypes.c_uint32),
                ("priorities", ctypes.POINTER(ctypes.c_float))]


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("next", ctypes.c_void_p), ("flags", ctypes.c_uint32), ("queues", ctypes.c_uint32), ("queue_infos", ctypes.POINTER(Queue)),
                ("layers", ctypes.c_uint32), ("layer_names", ctypes.c_void_p), ("extensions", ctypes.c_uint32), ("extension_names", ctypes.c_void_p), ("features", ctypes.c_void_p)]


class MemoryType(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint32), ("heap", ctypes.c_uint32)]


class MemoryHeap(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("flags", ctypes.c_uint32)]


class Memory(ctypes.Structure):
    _fields_ = [("type_count", ctypes.c_uint32), ("types", MemoryType * 32), ("heap_count", ctypes.c_uint32), ("heaps", MemoryHeap * 16)]


class Allocate(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("next", ctypes.c_void_p), ("size", ctypes.c_uint64), ("memory_type", ctypes.c_uint32)]


def hold(size):
    vulkan = Library("libvulkan.so.1")
    instance, device, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    application = Application(APPLICATION, api=1 << 22)
    vulkan.call("vkCreateInstance", ctypes.byref(Instance(INSTANCE, application=ctypes.pointer(application))), None, ctypes.byref(instance))
    count, cards = ctypes.c_uint32(16), (ctypes.c_void_p * 16)()
    vulkan.call("vkEnumeratePhysicalDevices", instance, ctypes.byref(count), cards)
    for card in map(ctypes.c_void_p, cards[:count.value]):
        properties = (ctypes.c_uint32 * 512)()  # VkPhysicalDeviceProperties: API, driver, vendor, …
        vulkan.library.vkGetPhysicalDeviceProperties(card, properties)
        if properties[2] == NVIDIA:
            break
    else:
        return "Vulkan has no NVIDIA device here"
    priority = ctypes.c_float(1)
    queue = Queue(QUEUE, family=0, count=1, priorities=ctypes.pointer(priority))
    vulkan.call("vkCreateDevice", card, ctypes.byref(Device(DEVICE, queues=1, queue_infos=ctypes.pointer(queue))), None, ctypes.byref(device))
    kinds = Memory()
    vulkan.library.vkGetPhysicalDeviceMemoryProperties(card, ctypes.byref(kinds))
    local = next(index for index in range(kinds.type_count) if kinds.types[index].flags & DEVICE_LOCAL)
    vulkan.call("vkAllocateMemory", device, ctypes.byref(Allocate(ALLOCATE, size=size, memory_type=local)), None, ctypes.byref(memory))
    return "holds"


if __name__ == "__main__":
    try:
        print(hold(int(sys.argv[1])), flush=True)
    except Exception as error:
        print(error, flush=True)
    sys.stdin.read()
