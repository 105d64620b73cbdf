"""A process on the simulated node that does what it is told, line by line, and answers each line with one line of JSON.

Actor, for tests: starts one, behind the words of `launcher` if there are any; `ask()` tells it something and waits, `tell()` only
tells. Run as a program, it is the process.
"""
import ctypes
import json
import os
import resource
import signal
import struct
import subprocess
import sys

MIB = 1 << 20


class SetLimits(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("soft", ctypes.c_uint64), ("hard", ctypes.c_uint64)]


class GetLimits(ctypes.Structure):
    _fields_ = SetLimits._fields_ + [("used", ctypes.c_uint64)]


class Memory2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_uint64), ("reserved", ctypes.c_uint64), ("free", ctypes.c_uint64), ("used", ctypes.c_uint64)]


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_uint64), ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


class Computing(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("time", ctypes.c_uint64), ("percent", ctypes.c_uint), ("others", ctypes.c_uint * 3)]


class Actor:
    def __init__(self, environment, launcher=()):
        self.process = subprocess.Popen([*launcher, sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, *words):
        self.tell(*words)
        return self.answer()

    def kill(self):
        self.process.kill()
        self.end()

    def end(self):
        """It ends by itself, and its launcher after it: nothing of them writes into a test's folder any more."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Obedient:
    """The commands. Each returns what is answered; a driver's or NVML's error is its number."""

    def __init__(self):
        self.blocks = []
        self.contexts = []
        self.modules = []

    def init(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        error = self.cuda.cuInit(0) or self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or self.cuda.cuCtxSetCurrent(context)
        self.contexts.append(context)
        return error

    def execute(self):
        """This program again, in this process: it answers the next command."""
        print(0, flush=True)
        os.execv(sys.executable, [sys.executable, __file__])

    def leave(self):
        print(0, flush=True)
        os._exit(0)

    def die(self):
        print(0, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def child(self, commands):
        """Another process of this program obeys them (`init;take=600;leave`); answers when it has ended."""
        subprocess.run([sys.executable, __file__], input=commands.replace("=", " ").replace(";", "\n") + "\n", text=True,
                       stdout=subprocess.DEVNULL)
        return 0

    def clone(self):
        """What follows is answered by a child that the clone system call made, with no hook of libc's fork()."""
        child = ctypes.CDLL(None).syscall(56, signal.SIGCHLD, 0, 0, 0, 0)  # SYS_clone on x86-64
        if child:
            os.waitpid(child, 0)
            os._exit(0)
        return self.init()

    def descriptors(self, count):
        """At most so many from now on: error numbers of what follows until they are enough again."""
        few, many = int(count), resource.getrlimit(resource.RLIMIT_NOFILE)
        self.cuda = ctypes.CDLL("libcuda.so.1")
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, many[1]))
        context, address = ctypes.c_void_p(0x1000), ctypes.c_uint64()
        errors = [self.cuda.cuInit(0), self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), self.cuda.cuCtxSetCurrent(context),
                  self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 * MIB))]
        resource.setrlimit(resource.RLIMIT_NOFILE, many)
        return errors

    def context(self):
        """Another context, the current one from now on."""
        context = ctypes.c_void_p()
        error = self.cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
        if error == 0:
            self.contexts.append(context)
        return error

    def private_context(self):
        """Another context, made as NVIDIA's own libraries may: by a private function of the driver."""
        class Table(ctypes.Structure):
            _fields_ = [("size", ctypes.c_size_t), ("create", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int))]
        table, context = ctypes.POINTER(Table)(), ctypes.c_void_p()
        error = (self.cuda.cuGetExportTable(ctypes.byref(table), ctypes.create_string_buffer(b"ration-contexts1", 16))
                 or table.contents.create(ctypes.addressof(context), 0, 0))
        if error == 0:
            self.contexts.append(context)
        return error

    def reset(self):
        return self.cuda.cuDevicePrimaryCtxReset_v2(0)

    def async_elsewhere(self, mib):
        """From the pool of the second device, by a stream of that one, while the first one's context is current."""
        context, stream, address = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        return (self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1) or self.cuda.cuCtxPushCurrent_v2(context)
                or self.cuda.cuStreamCreate(ctypes.byref(stream), 0) or self.cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
                or self.cuda.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(int(mib) * MIB), stream))

    def enter(self, number):
        return self.cuda.cuCtxSetCurrent(self.contexts[int(number)])

    def end(self, number):
        """Enters the first one, then ends that one."""
        return self.enter(0) or self.cuda.cuCtxDestroy_v2(self.contexts.pop(int(number)))

    def set_limit(self, kind, size):
        return self.cuda.cuCtxSetLimit(int(kind), ctypes.c_size_t(int(size)))

    def run_kernel(self, local):
        """One with so many bytes of local memory a thread."""
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        return (self.cuda.cuModuleLoadData(ctypes.byref(module), b"an image of a form that nobody knows".ljust(64))
                or self.cuda.cuModuleGetFunction(ctypes.byref(kernel), module, f"kernel__local{local}".encode())
                or self.cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, None))

    @staticmethod
    def code(size, **changed):
        """An image with a `__device__` array of that size; `changed`: fields of its header."""
        section = struct.pack("<IIQQQQIIQQ", 0, 8, 3, 0, 64, size, 0, 0, 256, 0)  # no bits in the file; loaded, written
        fields = {"class": 2, "section_size": 64, "sections": 1, "names": 0, "at": 64} | changed
        return (b"\x7fELF" + bytes([fields["class"], 1, 1]) + bytes(9)
                + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, fields["at"], 0, 64, 0, 0, fields["section_size"], fields["sections"], fields["names"]) + section)

    def load_image(self, image, function="cuModuleLoadData"):
        module = ctypes.c_void_p()
        error = getattr(self.cuda, function)(ctypes.byref(module), image)
        if error == 0:
            self.modules.append(module)
        return error

    def load_code(self, mib, function="cuModuleLoadData"):
        return self.load_image(self.code(int(mib) * MIB), function)

    def load_many(self, count, size):
        """So many images of that size."""
        return max(self.load_image(self.code(int(size)), "cuModuleLoadFatBinary") for _ in range(int(count)))

    def unload_every_second(self):
        kept, gone = self.modules[::2], self.modules[1::2]
        self.modules = kept
        return max(self.cuda.cuModuleUnload(module) for module in gone)

    def load_crafted(self):
        """Images whose size cannot be told."""
        crafted = ({"class": 1}, {"section_size": 63}, {"sections": 0, "at": 0}, {"at": 1 << 60}, {"sections": 2000, "at": (1 << 64) - 64}, {"names": 7},
                   {"names": 0xffff, "sections": 0, "at": 0})
        return [self.load_image(self.code(MIB, **changed)) for changed in crafted]

    def load_library(self, mib):
        library = ctypes.c_void_p()
        error = self.cuda.cuLibraryLoadData(ctypes.byref(library), self.code(int(mib) * MIB), None, None, 0, None, None, 0)
        if error == 0:
            self.libraries = getattr(self, "libraries", []) + [library]
        return error

    def unload_library(self):
        return self.cuda.cuLibraryUnload(self.libraries.pop())

    def second_device(self):
        """The primary context of the second device."""
        context = ctypes.c_void_p()
        return self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)

    def unload_code(self):
        return self.cuda.cuModuleUnload(self.modules.pop())

    def load(self):
        """Only the library: a checkpoint needs no cuInit."""
        self.cuda = ctypes.CDLL("libcuda.so.1")
        return 0

    def become(self, user):
        """Another user from now on, whose processes can be looked at as any other's."""
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
        return ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE

    def take(self, mib, function="cuMemAlloc_v2"):
        address = ctypes.c_uint64()
        size = ctypes.c_size_t(int(float(mib) * MIB))
        error = self.cuda.cuMemAllocManaged(ctypes.byref(address), size, 1) if function == "managed" else getattr(self.cuda, function)(ctypes.byref(address), size)
        if error == 0:
            self.blocks.append(address)
        return error

    def managed(self, mib):
        return self.take(mib, "managed")

    def prefetch(self, block, mib, device=0):
        """The beginning of a block; -1: to the host."""
        return self.cuda.cuMemPrefetchAsync(self.blocks[int(block)], ctypes.c_size_t(int(mib) * MIB), int(device), None)

    def prefetch_batch(self, *mib):
        """The beginnings of the first blocks, to the device, in one call."""
        count = len(mib)
        addresses = (ctypes.c_uint64 * count)(*(block.value for block in self.blocks[:count]))
        sizes = (ctypes.c_size_t * count)(*(int(each) * MIB for each in mib))
        location, first = (ctypes.c_int * 2)(1, 0), ctypes.c_size_t(0)
        return self.cuda.cuMemPrefetchBatchAsync(addresses, sizes, ctypes.c_size_t(count), location, ctypes.byref(first), ctypes.c_size_t(1),
                                                 ctypes.c_ulonglong(0), None)

    def advise(self, block, mib, advice, device=0):
        """CUmem_advise by its number, for the beginning of a block; -1: the host."""
        return self.cuda.cuMemAdvise(self.blocks[int(block)], ctypes.c_size_t(int(mib) * MIB), int(advice), int(device))

    def fill(self, block, mib):
        return self.cuda.cuMemsetD8_v2(self.blocks[int(block)], ctypes.c_ubyte(1), ctypes.c_size_t(int(mib) * MIB))

    def mark(self, block, mib):
        """The last bytes of the beginning of a block."""
        return self.cuda.cuMemsetD8_v2(ctypes.c_uint64(self.blocks[int(block)].value + int(mib) * MIB - 4), ctypes.c_ubyte(7), ctypes.c_size_t(4))

    def is_marked(self, block, mib):
        found = (ctypes.c_ubyte * 4)()
        self.cuda.cuMemcpyDtoH_v2(found, ctypes.c_uint64(self.blocks[int(block)].value + int(mib) * MIB - 4), ctypes.c_size_t(4))
        return list(found) == [7] * 4

    def give(self):
        return self.cuda.cuMemFree_v2(self.blocks.pop())

    def churn(self, times):
        """Takes and gives without a pause."""
        for _ in range(int(times)):
            error = self.take(2) or self.give()
            if error:
                return error
        return 0

    def write(self, word):
        return self.cuda.cuMemcpyHtoD_v2(self.blocks[-1], ctypes.byref(ctypes.c_uint32(int(word))), ctypes.c_size_t(4))

    def read(self):
        word = ctypes.c_uint32()
        error = self.cuda.cuMemcpyDtoH_v2(ctypes.byref(word), self.blocks[-1], ctypes.c_size_t(4))
        return [error, word.value]

    def info(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        error = self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return [error, free.value // MIB, total.value // MIB]

    def version(self):
        number = ctypes.c_int()
        self.cuda.cuDriverGetVersion(ctypes.byref(number))
        return number.value

    def publish(self):
        return self.cuda.cuIpcGetMemHandle(ctypes.create_string_buffer(64), self.blocks[-1])

    # Checkpoints.
    def state(self, pid):
        number = ctypes.c_int(-1)
        error = self.cuda.cuCheckpointProcessGetState(int(pid), ctypes.byref(number))
        return number.value if error == 0 else -error

    def lock(self, pid, timeout_ms=0):
        arguments = (ctypes.c_uint * 16)(int(timeout_ms))
        return self.cuda.cuCheckpointProcessLock(int(pid), arguments)

    def checkpoint(self, pid):
        return self.cuda.cuCheckpointProcessCheckpoint(int(pid), None)

    def restore(self, pid):
        return self.cuda.cuCheckpointProcessRestore(int(pid), None)

    def unlock(self, pid):
        return self.cuda.cuCheckpointProcessUnlock(int(pid), None)

    # NVML.
    def nvml(self):
        self.management = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        return self.management.nvmlInit_v2() or self.management.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))

    def limit(self, path, soft, hard):
        number = [2**64 - 1 if text == "max" else int(text) * MIB for text in (soft, hard)]
        return self.management.nvmlDeviceSetMemoryLimits_v1(self.device, ctypes.byref(SetLimits(os.fsencode(path), *number)))

    def limits(self, path):
        limits = GetLimits(os.fsencode(path))
        error = self.management.nvmlDeviceGetMemoryLimits_v1(self.device, ctypes.byref(limits))
        if error:
            return error
        return [value if value == 2**64 - 1 else value // MIB for value in (limits.soft, limits.hard, limits.used)]

    def memory(self):
        if not hasattr(self.management, "nvmlDeviceGetMemoryInfo_v2"):  # release 470: total, free, used
            plain = (ctypes.c_uint64 * 3)()
            return [self.management.nvmlDeviceGetMemoryInfo(self.device, plain), *(value // MIB for value in plain)]
        memory = Memory2(version=ctypes.sizeof(Memory2) | 2 << 24)
        error = self.management.nvmlDeviceGetMemoryInfo_v2(self.device, ctypes.byref(memory))
        return [error, memory.total // MIB, memory.free // MIB, memory.used // MIB]

    def processes(self):
        count, list_of = ctypes.c_uint(64), (Process * 64)()
        list_processes = getattr(self.management, "nvmlDeviceGetComputeRunningProcesses_v3", None) or self.management.nvmlDeviceGetComputeRunningProcesses_v2
        list_processes(self.device, ctypes.byref(count), list_of)
        return {str(list_of[i].pid): list_of[i].bytes // MIB for i in range(count.value)}

    def computing(self):
        count, list_of = ctypes.c_uint(64), (Computing * 64)()
        error = self.management.nvmlDeviceGetProcessUtilization(self.device, list_of, ctypes.byref(count), ctypes.c_uint64(0))
        return -error if error else {str(list_of[i].pid): list_of[i].percent for i in range(count.value)}


def main():
    obedient = Obedient()
    for line in sys.stdin:
        word, *arguments = line.split()
        print(json.dumps(getattr(obedient, word)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
