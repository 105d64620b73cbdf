// The library that NVTX_INJECTION64_PATH names in a recorded program. NVTX opens it at its first call in each library
// that has a copy of it, and keeps it if the guard takes the calls. It links nothing, and in a process without the
// guard NVTX stays as it is without a tool.
#include <cstdint>

extern "C" {

/// The guard's (src/guard/hooks/nvtx.cpp). Null where no guard was loaded before.
[[gnu::weak]] int ration_shim_nvtx(const void* (*tables)(std::uint32_t));

[[gnu::visibility("default")]] int InitializeInjectionNvtx2(const void* (*tables)(std::uint32_t)) {
  return ration_shim_nvtx != nullptr ? ration_shim_nvtx(tables) : 0;
}
}
