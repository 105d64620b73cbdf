#include "driver/driver.hpp"

#include <dlfcn.h>

namespace ration::driver {
namespace {

// Never unloaded: programs call the driver from their own atexit handlers.
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

}  // namespace ration::driver
