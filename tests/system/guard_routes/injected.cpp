// A profiler's library, as the driver loads it at cuInit where CUDA_INJECTION64_PATH names one, and calls its
// InitializeInjection (CUPTI's sample profiling_injection). It says where the driver's functions lie that it would
// call.
#include <dlfcn.h>

#include <cstdio>

extern "C" {
int cuMemAlloc_v2();

static void say(const char* how, void* function) {
  Dl_info info;
  const bool found = function != nullptr && ::dladdr(function, &info) != 0;
  std::printf("%s %s\n", how, found ? info.dli_fname : "nowhere");
}

[[gnu::visibility("default")]] int InitializeInjection() {
  say("linked", reinterpret_cast<void*>(&cuMemAlloc_v2));
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  say("opened", driver != nullptr ? ::dlsym(driver, "cuMemAlloc_v2") : nullptr);
  using Get = int(const char*, void**, int, unsigned long, int*);
  auto* get = driver != nullptr ? reinterpret_cast<Get*>(::dlsym(driver, "cuGetProcAddress_v2")) : nullptr;
  void* function = nullptr;
  int status = 0;
  say("asked", get != nullptr && get("cuMemAlloc", &function, 12000, 1, &status) == 0 ? function : nullptr);
  return 1;
}
}
