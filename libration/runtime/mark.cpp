#include <dlfcn.h>

#include "ration/runtime.hpp"

namespace ration {

void mark(const std::string& text) {
  using Mark = void(const char*);
  static Mark* const record = []() -> Mark* {
    void* guard = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return guard == nullptr ? nullptr : reinterpret_cast<Mark*>(::dlsym(guard, "ration_shim_mark"));
  }();
  if (record != nullptr) record(text.c_str());
}

}  // namespace ration
