// All names that the driver exports, and the look-up of functions by name and version. Functions without an
// implementation here return CUDA_ERROR_NOT_SUPPORTED, never a fake success.
#include <cstddef>
#include <cstdint>
#include <cstring>

// The name of the last function without an implementation that the thread called, for cuGetErrorString().
extern "C" {
thread_local const char* ration_sim_missing = nullptr;
}

extern "C" int ration_sim_unlisted(std::uint64_t* out, std::size_t size);

#define RATION_DRIVER_SYMBOL(index, symbol, ...)                      \
  extern "C" [[gnu::weak, gnu::visibility("default")]] int symbol() { \
    ration_sim_missing = #symbol;                                     \
    return 801;                                                       \
  }
#include "driver/driver_table.inc"
#undef RATION_DRIVER_SYMBOL

namespace {

struct Name {
  const char* symbol;
  const char* base;
  int since;
  const char* mode;
  int (*address)();
};

#define RATION_DRIVER_SYMBOL(index, symbol, base, since, mode, ...) {#symbol, #base, since, #mode, symbol},
constexpr Name kNames[] = {
#include "driver/driver_table.inc"
};
#undef RATION_DRIVER_SYMBOL

constexpr std::uint64_t kPerThread = 2;

constexpr const char* kUnlisted = "cuMemAllocUnlisted";  // listed in no table

// Finds the newest variant up to `version`, or its per-thread twin if `flags` ask for the twin and there is one.
// Functions newer than the driver do not exist.
int find(const char* name, void** out, int version, std::uint64_t flags, int driver) {
  if (name == nullptr || out == nullptr) return 1;
  if (std::strcmp(name, kUnlisted) == 0) {
    *out = reinterpret_cast<void*>(&ration_sim_unlisted);
    return 0;
  }
  const Name* best = nullptr;
  bool best_is_twin = false;
  bool known = false;
  for (const Name& entry : kNames) {
    if (std::strcmp(entry.base, name) != 0 || entry.since > driver) continue;
    known = true;
    const bool twin = std::strcmp(entry.mode, "legacy") != 0;
    if (entry.since > version || (twin && (flags & kPerThread) == 0)) continue;
    if (best == nullptr || entry.since > best->since || (entry.since == best->since && twin && !best_is_twin)) {
      best = &entry;
      best_is_twin = twin;
    }
  }
  *out = best != nullptr ? reinterpret_cast<void*>(best->address) : nullptr;
  return best != nullptr ? 0 : known ? -1 : 500;
}

}  // namespace

/// Finds a function. Returns 0, or the reason why there is none: 1 for invalid arguments, -1 if not in that version,
/// 500 if in no version. `driver` is the version that cuDriverGetVersion() reports.
extern "C" int ration_sim_find(const char* name, void** out, int version, std::uint64_t flags, int driver) {
  return find(name, out, version, flags, driver);
}

/// Returns true if the driver has a function of that base name.
extern "C" int ration_sim_knows(const char* base) {
  for (const Name& entry : kNames) {
    if (std::strcmp(entry.base, base) == 0) return 1;
  }
  return 0;
}
