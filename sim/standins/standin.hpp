// The declarations that the stand-ins for NVIDIA's mathematics libraries share. Stand-ins offer the functions that
// frameworks call, take the device memory that the real ones would, and compute nothing: a call that would compute
// returns success and leaves its results unchanged, like kernels on the simulated GPU. A function that is not offered
// returns the library's "not supported", and its error text names the function.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "driver/cuda_abi.hpp"

#define STANDIN extern "C" [[gnu::visibility("default")]]

namespace ration::standin {

using Handle = void*;

template <typename Function>
Function* driver(const char* name) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
}

/// Allocates device memory of the current context. Returns 0 on failure.
inline cuda::CUdeviceptr take(std::size_t bytes) {
  auto* allocate = driver<cuda::cuMemAlloc_v2_t>("cuMemAlloc_v2");
  cuda::CUdeviceptr address = 0;
  return allocate != nullptr && allocate(&address, bytes) == cuda::CUDA_SUCCESS ? address : 0;
}
inline void give(cuda::CUdeviceptr address) {
  if (address != 0) driver<cuda::cuMemFree_v2_t>("cuMemFree_v2")(address);
}
/// Helpers of the functions that names.py generates: count() counts elements, and workspace() writes the size of a
/// workspace. A library whose list has workspaces defines workspace(). It usually writes a number of elements if `out`
/// is an int, and a number of bytes if `out` has 64 bits.
inline std::size_t count(int number) { return number > 0 ? static_cast<std::size_t>(number) : 0; }
inline std::size_t count(std::int64_t number) { return number > 0 ? static_cast<std::size_t>(number) : 0; }
/// A sparse matrix. Its count is the number of its elements.
struct Nonzeros {
  Handle matrix;
};
std::size_t count(Nonzeros nonzeros);
void workspace(int* out, std::size_t elements);
void workspace(std::size_t* out, std::size_t elements);
/// Returns true if the calling thread has a context; none of these libraries starts without one.
inline bool has_context() {
  auto* get = driver<cuda::cuCtxGetDevice_t>("cuCtxGetDevice");
  cuda::CUdevice device = 0;
  return get != nullptr && get(&device) == cuda::CUDA_SUCCESS;
}
/// Returns the major number of the current device's compute capability.
inline int capability() {
  int major = 0;
  cuda::CUdevice device = 0;
  driver<cuda::cuCtxGetDevice_t>("cuCtxGetDevice")(&device);
  driver<cuda::cuDeviceGetAttribute_t>("cuDeviceGetAttribute")(
      &major, cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  return major;
}

/// Launches the kernel of a computing call on the stream. A capture of the stream records the launch.
inline void launch(Handle stream) {
  thread_local cuda::CUcontext context = nullptr;
  thread_local cuda::CUfunction kernel = nullptr;
  cuda::CUcontext current = nullptr;
  if (driver<cuda::CUresult(cuda::CUcontext*)>("cuCtxGetCurrent")(&current) != cuda::CUDA_SUCCESS || current == nullptr)
    return;
  auto* run = driver<cuda::CUresult(cuda::CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                    unsigned, Handle, void**, void**)>("cuLaunchKernel");
  if (current == context && run(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr) == cuda::CUDA_SUCCESS) return;
  void* module = nullptr;
  context = nullptr;
  if (driver<cuda::CUresult(void**, const void*)>("cuModuleLoadData")(&module, "") != cuda::CUDA_SUCCESS ||
      driver<cuda::CUresult(cuda::CUfunction*, void*, const char*)>("cuModuleGetFunction")(
          &kernel, module, "library") != cuda::CUDA_SUCCESS)
    return;
  context = current;
  run(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
}

/// Returns the stream of a library's handle. Each stand-in defines this.
Handle stream_of(Handle handle);

/// Launches the kernel of a call that computes, on the stream of its first argument.
inline int compute(Handle handle) {
  if (handle != nullptr) launch(stream_of(handle));
  return 0;
}

/// Writes `numbers` zeros, which mean success, on the device in the order of the handle's stream.
inline void write_zeros(int* out, std::size_t numbers, Handle handle) {
  if (handle != nullptr && out != nullptr && numbers > 0)
    driver<cuda::CUresult(cuda::CUdeviceptr, unsigned, std::size_t, Handle)>("cuMemsetD32Async")(
        reinterpret_cast<cuda::CUdeviceptr>(out), 0, numbers, stream_of(handle));
}

/// The last function of this library that the calling thread called and that is not offered, or null.
inline thread_local const char* missing = nullptr;

/// Returns the result of a function that is not offered: the library's own "not supported".
inline int not_offered(const char* function, int status) noexcept {
  missing = function;
  return status;
}

/// Returns the error text for `missing`. Valid until the thread's next call.
inline const char* missing_text() {
  thread_local std::string text;
  text = std::string(missing) + " is not simulated by ration (see: ration help simulated)";
  return text.c_str();
}

}  // namespace ration::standin
