// The driver as WSL 2 has it in /usr/lib/wsl/lib: a loader that opens the driver proper, a file of the same name in
// another folder, and hands every call on to it. One source for both libraries.
#include <dlfcn.h>

namespace {

template <typename Function>
Function* proper(const char* name) {
  static void* const library = ::dlopen(PROPER, RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? reinterpret_cast<Function*>(::dlsym(library, name)) : nullptr;
}

}  // namespace

extern "C" {
[[gnu::visibility("default")]] int cuDeviceGetCount() { return proper<int()>("cuDeviceGetCount")(); }
[[gnu::visibility("default")]] const char* nvmlErrorString(int error) {
  return proper<const char*(int)>("nvmlErrorString")(error);
}
}
