// The library that NVTX_INJECTION64_PATH names in a recorded program. Each copy of NVTX in the process opens this
// library at its first call, and keeps it if the guard takes the calls. The library is linked with no other. In a
// process without the guard NVTX does nothing, as without a tool.
#include <cstdint>

extern "C" {

/// The guard's function (src/guard/hooks/nvtx.cpp); null if no guard was loaded before.
[[gnu::weak]] int ration_shim_nvtx(const void* (*tables)(std::uint32_t));

[[gnu::visibility("default")]] int InitializeInjectionNvtx2(const void* (*tables)(std::uint32_t)) {
  return ration_shim_nvtx != nullptr ? ration_shim_nvtx(tables) : 0;
}
}
