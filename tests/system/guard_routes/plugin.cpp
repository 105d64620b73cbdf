// A library of somebody's own that was linked with the driver: its DT_NEEDED must lead to the guard wherever it is
// loaded.
#include <dlfcn.h>

extern "C" {
int cuMemAlloc_v2();
int cuDeviceGetCount();
int nvmlDeviceGetMemoryInfo();
[[gnu::visibility("default")]] void* plugin_linked() { return reinterpret_cast<void*>(&cuMemAlloc_v2); }
[[gnu::visibility("default")]] int plugin_call() { return cuDeviceGetCount(); }
[[gnu::visibility("default")]] void* plugin_open(const char* file) {
  void* handle = ::dlopen(file, RTLD_NOW);
  return handle != nullptr ? ::dlsym(handle, "cuMemAlloc_v2") : nullptr;
}
// A runtime that is linked into a library asks for names; so does this.
[[gnu::visibility("default")]] void* plugin_asked() {
  void* handle = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (handle == nullptr) return nullptr;
  using Get = int(const char*, void**, int, unsigned long, int*);
  auto* get = reinterpret_cast<Get*>(::dlsym(handle, "cuGetProcAddress_v2"));
  void* function = nullptr;
  int status = 0;
  return get != nullptr && get("cuMemAlloc", &function, 12000, 1, &status) == 0 ? function : nullptr;
}
}
