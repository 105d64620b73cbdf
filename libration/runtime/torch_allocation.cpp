// The function that PyTorch calls for memory. On a denial, it calls a function of PyTorch's that throws, and the
// exception passes through this function. In a package this library has an unwinder of its own, which must not handle
// PyTorch's exceptions. Therefore this file is compiled without exceptions, and the function has no object to destroy
// when the exception passes.
#include "runtime/torch_allocation.hpp"

#include <dlfcn.h>

#include <cstdint>

#include "ration/ration.h"

namespace {

/// PyTorch's function for failed checks, which throws.
using CheckFailed = void (*)(const char* function, const char* file, std::uint32_t line, const char* text);

/// Returns the function, or null if PyTorch is not in the process.
[[gnu::noinline]] CheckFailed check_failed_of_torch() noexcept {
  void* library = ::dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* function = ::dlsym(library, "_ZN3c106detail14torchCheckFailEPKcS2_jS2_");
  ::dlclose(library);
  return reinterpret_cast<CheckFailed>(function);
}

}  // namespace

extern "C" void* ration_torch_alloc(std::ptrdiff_t size, int device, void* stream) {
  void* address = nullptr;
  const char* denial = ration::runtime::allocate_for_torch(size, device, stream, &address);
  if (denial == nullptr) return address;
  // Without an exception, PyTorch uses whatever the allocator returns as memory, even null.
  if (CheckFailed check_failed = check_failed_of_torch(); check_failed != nullptr)
    check_failed("ration_torch_alloc", "ration", 0, denial);
  return nullptr;
}
