#include "driver/driver.hpp"

#include <dlfcn.h>

namespace ration::driver {
namespace {

// Loads the driver for good, because programs call it from their own atexit handlers.
const Driver* load() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return nullptr;
  static Driver driver;
#define RATION_LOAD(name) driver.name = reinterpret_cast<cuda::name##_t*>(::dlsym(library, #name));
  RATION_DRIVER_FUNCTIONS(RATION_LOAD)
#undef RATION_LOAD
  const bool usable = driver.cuInit != nullptr && driver.cuInit(0) == cuda::CUDA_SUCCESS;
  return usable ? &driver : nullptr;
}

}  // namespace

const Driver* Driver::get() {
  static const Driver* const found = load();
  return found;
}

cuda::CUresult order(const Driver& driver, cuda::CUstream earlier, cuda::CUstream later) {
  constexpr unsigned kNoTiming = 2;
  cuda::CUevent event = nullptr;
  cuda::CUresult result = driver.cuEventCreate(&event, kNoTiming);
  if (result != cuda::CUDA_SUCCESS) return result;
  result = driver.cuEventRecord(event, earlier);
  if (result == cuda::CUDA_SUCCESS) result = driver.cuStreamWaitEvent(later, event, 0);
  driver.cuEventDestroy_v2(event);  // the driver keeps the event until it has happened
  return result;
}

}  // namespace ration::driver
