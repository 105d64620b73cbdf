"""A buffer of OpenGL that CUDA uses: whose memory is it? Without a window: EGL on the device itself."""
import ctypes

from . import GIB, Finding, NotPossible, experiment, mib
from .actor import Actor, settled
from .driver import Library, Nvml, piece

PLATFORM_DEVICE, OPENGL, NONE = 0x313F, 0x30A2, 0x3038
ARRAY_BUFFER, STATIC_DRAW = 0x8892, 0x88E4


class Egl:
    """A context of OpenGL on the NVIDIA device, made current in this thread."""

    def __init__(self):
        try:
            self.library = Library("libEGL.so.1").library
        except NotPossible as reason:
            raise NotPossible(f"no EGL: {reason}")
        self.library.eglGetProcAddress.restype = ctypes.c_void_p
        handles, count = (ctypes.c_void_p * 16)(), ctypes.c_int()
        self.function("eglQueryDevicesEXT", ctypes.c_uint)(16, handles, ctypes.byref(count))
        for device in map(ctypes.c_void_p, handles[:count.value]):
            display = ctypes.c_void_p(self.function("eglGetPlatformDisplayEXT", ctypes.c_void_p)(PLATFORM_DEVICE, device, None))
            if not self.function("eglInitialize", ctypes.c_uint)(display, None, None):
                continue
            self.function("eglBindAPI", ctypes.c_uint)(OPENGL)
            context = ctypes.c_void_p(self.function("eglCreateContext", ctypes.c_void_p)(display, None, None, (ctypes.c_int * 1)(NONE)))
            if context and self.function("eglMakeCurrent", ctypes.c_uint)(display, None, None, context):
                vendor = self.function("glGetString", ctypes.c_char_p)(0x1F00) or b""
                if b"NVIDIA" in vendor:
                    return
        raise NotPossible("EGL has no NVIDIA device here")

    def function(self, name, result=None):
        address = self.library.eglGetProcAddress(name.encode())
        if not address:
            raise NotPossible(f"EGL has no {name}")

        def call(*arguments):
            return ctypes.CFUNCTYPE(result)(address)(*[ctypes.c_int64(each) if isinstance(each, int) else each for each in arguments])
        return call


def share_a_buffer(gpu, size):
    """Makes the buffer, then a context of CUDA, registers and maps it; what CUDA says of its size."""
    egl = Egl()
    names, resource = (ctypes.c_uint * 1)(), ctypes.c_void_p()
    egl.function("glGenBuffers")(1, names)
    egl.function("glBindBuffer")(ARRAY_BUFFER, names[0])
    egl.function("glBufferData")(ARRAY_BUFFER, size, None, STATIC_DRAW)
    egl.function("glFinish")()
    gpu.open()
    gpu.call("cuGraphicsGLRegisterBuffer", ctypes.byref(resource), names[0], 0)
    gpu.call("cuGraphicsMapResources", 1, ctypes.byref(resource), None)
    address, length = ctypes.c_uint64(), ctypes.c_size_t()
    gpu.call("cuGraphicsResourceGetMappedPointer_v2", ctypes.byref(address), ctypes.byref(length), resource)
    gpu.egl = egl
    return length.value


@experiment(31, "a buffer of OpenGL that CUDA maps: the driver's figures beside the book", "on the device; the book does not have it", 60)
def opengl_buffer():
    nvml, size = Nvml(), piece(GIB // 2)
    with Actor(limit=4 * GIB) as program:
        before = settled(nvml.used)
        try:
            mapped = program.ask("opengl.share_a_buffer", size)
        except RuntimeError as error:
            raise NotPossible(str(error).removeprefix("NotPossible: "))
        device, told = settled(nvml.used) - before, program.book()
    return Finding(f"{mib(size)}: {mib(mapped)} mapped; device {mib(device)} with contexts; "
                   f"book {mib(told['used'])} of which context {mib(told['context'])}, driver {mib(told['driver'])}, not explained {mib(told.get('unexplained'))}",
                   told["used"] - (told["context"] or 0) < size)
