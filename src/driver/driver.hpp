// Loads the CUDA driver at run time by its own name, so that a program also runs on a machine without one, and so that
// calls reach a library that stands in front of the driver (ration's own guard, a simulated GPU). Used by
// libration/pool and libration/runtime.
#pragma once

#include "driver/cuda_abi.hpp"
#include "driver/cuda_copy_abi.hpp"

namespace ration::driver {

// The functions that ration's own library calls.
// clang-format never settles on one form of this list.
// clang-format off
#define RATION_DRIVER_FUNCTIONS(X) \
  X(cuDeviceGetUuid_v2) X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) \
  X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem_v2) X(cuDevicePrimaryCtxRetain) \
  X(cuDevicePrimaryCtxRelease_v2) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) X(cuCtxSynchronize) \
  X(cuCtxGetStreamPriorityRange) X(cuMemGetInfo_v2) X(cuMemAlloc_v2) X(cuMemAllocManaged) \
  X(cuMemFree_v2) X(cuMemAllocAsync) X(cuMemAllocFromPoolAsync) X(cuMemPoolCreate) X(cuMemPoolDestroy) \
  X(cuMemFreeAsync) X(cuDeviceGetDefaultMemPool) X(cuMemPoolTrimTo) X(cuMemPoolSetAttribute) \
  X(cuMemPoolGetAttribute) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) \
  X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventRecord) \
  X(cuStreamWaitEvent) X(cuStreamSynchronize)
// clang-format on

/// The functions by their names; null for those that this driver lacks.
struct Driver {
#define RATION_DECLARE(name) cuda::name##_t* name = nullptr;
  RATION_DRIVER_FUNCTIONS(RATION_DECLARE)
#undef RATION_DECLARE

  /// Returns the machine's driver after cuInit(), or null if there is none or it does not start. Thread-safe; the
  /// driver is searched once.
  [[nodiscard]] static const Driver* get();
};

/// Orders all later work on `later` after the present work on `earlier`. Requires a current context.
[[nodiscard]] cuda::CUresult order(const Driver& driver, cuda::CUstream earlier, cuda::CUstream later);

/// A scope in which the context is the calling thread's current one.
class ContextScope {
 public:
  ContextScope(const Driver& driver, cuda::CUcontext context) : driver_(driver) {
    entered_ = driver.cuCtxPushCurrent_v2(context) == cuda::CUDA_SUCCESS;
  }
  ~ContextScope() {
    cuda::CUcontext left = nullptr;
    if (entered_) driver_.cuCtxPopCurrent_v2(&left);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Driver& driver_;
  bool entered_;
};

}  // namespace ration::driver
