// Every name that the driver exports: those without an implementation here answer CUDA_ERROR_NOT_SUPPORTED, never a
// fake success; and the look-up of functions by name and version.
#include <cstddef>
#include <cstdint>
#include <cstring>

// The last of them that the thread called: cuGetErrorString() names it.
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

constexpr const char* kUnlisted = "cuMemAllocUnlisted";  // stands in no table

// The newest variant that is not newer than asked for; the per-thread twin if asked for and there is one. Functions
// newer than the driver do not exist.
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

/// 0, or why there is no such function: 1 bad arguments, -1 not in that version, 500 not at all. `driver`: the version
/// that cuDriverGetVersion() tells.
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
