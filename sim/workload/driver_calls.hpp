// The look-up of the driver's functions by name, as in a program that is not linked against the driver.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "driver/cuda_abi.hpp"

namespace ration::workload {

/// The handle of libcuda.so.1, which main() opens.
inline void* library = nullptr;

template <typename Function>
Function* find(const char* name) {
  void* address = ::dlsym(library, name);
  if (address == nullptr) {
    std::fprintf(stderr, "ration-workload: the driver has no %s\n", name);
    std::exit(2);
  }
  return reinterpret_cast<Function*>(address);
}

/// Returns the driver's function of that name. Ends the program if there is none.
#define DRIVER(name)                                                                     \
  ([]() -> ration::cuda::name##_t* {                                                     \
    static auto* const function = ration::workload::find<ration::cuda::name##_t>(#name); \
    return function;                                                                     \
  }())

/// Returns the first device, and the second one if there is one.
inline std::vector<cuda::CUdevice> tried_devices() {
  int devices = 0;
  DRIVER(cuDeviceGetCount)(&devices);
  return devices > 1 ? std::vector{0, 1} : std::vector{0};
}

/// Makes the call with the device's context as the current one.
template <typename Call>
cuda::CUresult within(cuda::CUdevice device, Call&& call) {
  cuda::CUcontext context = nullptr;
  cuda::CUresult result = DRIVER(cuDevicePrimaryCtxRetain)(&context, device);
  if (result != cuda::CUDA_SUCCESS) return result;
  DRIVER(cuCtxPushCurrent_v2)(context);
  result = call();
  DRIVER(cuCtxPopCurrent_v2)(&context);
  DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
  return result;
}

/// Returns the properties of physical memory of a device.
inline cuda::CUmemAllocationProp on_device(int device) {
  cuda::CUmemAllocationProp properties{};
  properties.type = cuda::CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {cuda::CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}
/// Returns properties for memory of the first device that can be exported as a descriptor.
inline cuda::CUmemAllocationProp shareable() {
  auto properties = on_device(0);
  properties.requestedHandleTypes = cuda::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

}  // namespace ration::workload
