// cuGetProcAddress, by which the CUDA runtime, and every library that contains a runtime, finds the driver's functions.
// The real driver resolves name, version and flags; if the guard hooks the resulting function, the caller gets the
// guard's entry for exactly that function (`_v2`, `_ptsz` and old ABI versions need no special treatment).
//
// Each request costs one comparison per hooked function. A runtime makes about 440 requests, once.
#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "guard/environment.hpp"
#include "guard/real.hpp"
#include "guard/unlisted.hpp"

namespace ration::guard {

namespace {

constexpr int kSuccess = 0;

// CU_GET_PROC_ADDRESS_LEGACY_STREAM and CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM; 0 means legacy.
constexpr std::uint64_t kLegacyStream = 1;
constexpr std::uint64_t kPerThreadStream = 2;

using GetProcAddress = int(const char* name, void** function, int version, std::uint64_t flags);
using GetProcAddress2 = int(const char* name, void** function, int version, std::uint64_t flags, int* status);

struct Row {
  const char* base;  ///< the name that cuGetProcAddress is asked for
  int since;         ///< the CUDA version from which that name means this function
  bool per_thread;   ///< true for the `_ptsz` or `_ptds` twin
  bool marked;       ///< true if the table requires a hook
};

constexpr bool is_hook(const char* how) noexcept { return how[0] == 'h' && how[1] == 'o'; }
constexpr bool is_per_thread(const char* mode) noexcept { return mode[0] == 'p' && mode[1] == 't'; }

constexpr Row kRows[] = {
#define RATION_DRIVER_SYMBOL(index, symbol, base, since, mode, hooked) \
  {#base, since, is_per_thread(#mode), is_hook(#hooked)},
#include "guard/driver_symbols.inc"
#undef RATION_DRIVER_SYMBOL
};
static_assert(sizeof kRows / sizeof kRows[0] == kSymbolCount);

// The addresses of each function: the one from dlsym, and the one from the driver's own cuGetProcAddress if it differs.
// Filled once; threads that race for the first call write the same values.
struct Addresses {
  void* exported;
  void* handed_out;
};
Addresses addresses[kSymbolCount];
std::atomic<bool> addresses_known{false};

/// Returns true if callers get the guard's entry, because a hook exists or the table requires one.
bool is_ours(std::size_t index) noexcept { return kRows[index].marked || is_hooked(static_cast<Symbol>(index)); }

void* ask(std::size_t index, std::uint64_t flags) noexcept {
  void* function = nullptr;
  if (has_real(Symbol::cuGetProcAddress_v2)) {
    int status = 0;
    auto* get = real<GetProcAddress2>(Symbol::cuGetProcAddress_v2);
    if (get(kRows[index].base, &function, kRows[index].since, flags, &status) != kSuccess) return nullptr;
  } else if (has_real(Symbol::cuGetProcAddress)) {
    auto* get = real<GetProcAddress>(Symbol::cuGetProcAddress);
    if (get(kRows[index].base, &function, kRows[index].since, flags) != kSuccess) return nullptr;
  }
  return function;
}

bool is_exported(void* function) noexcept {
  for (const Addresses& known : addresses) {
    if (known.exported == function) return true;
  }
  return false;
}

void learn_addresses() noexcept {
  if (addresses_known.load(std::memory_order_acquire)) return;
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    __atomic_store_n(&addresses[i].exported, real_address(static_cast<Symbol>(i)), __ATOMIC_RELAXED);
  }
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    if (!is_ours(i) || addresses[i].exported == nullptr) continue;
    void* handed_out = ask(i, kRows[i].per_thread ? kPerThreadStream : kLegacyStream);
    // A returned function that is exported under another name (another version, the legacy twin) belongs to that name's
    // row.
    if (handed_out == nullptr || is_exported(handed_out)) continue;
    __atomic_store_n(&addresses[i].handed_out, handed_out, __ATOMIC_RELAXED);
  }
  addresses_known.store(true, std::memory_order_release);
}

/// Returns true if the table knows functions of that name and hooks none of them. Then a function that the driver
/// returns for that name but does not export needs no hook.
bool is_passed_on(const char* name) noexcept {
  bool known = false;
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    if (std::strcmp(kRows[i].base, name) != 0) continue;
    if (is_ours(i)) return false;
    known = true;
  }
  return known;
}

/// Returns the name under which the driver exports `function`, such as `cuMemAlloc_v3` for `cuMemAlloc`, or `asked` if
/// the driver does not export the function.
const char* exported_name(void* function, const char* asked) noexcept {
  Dl_info info;
  const bool found = ::dladdr(function, &info) != 0 && info.dli_saddr == function && info.dli_sname != nullptr;
  return found ? info.dli_sname : asked;
}

/// Returns the guard's entry for the real function that the driver returned, or that function itself if it is not
/// hooked. A driver may use one function for several names; then the requested name, stream and version decide.
void* translate(const char* name, void* function, int version, std::uint64_t flags) noexcept {
  learn_addresses();
  const bool per_thread = (flags & kPerThreadStream) != 0;
  std::size_t best = kSymbolCount;
  int best_score = -1;
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    if (addresses[i].exported != function && addresses[i].handed_out != function) continue;
    const bool named = std::strcmp(kRows[i].base, name) == 0;
    const bool in_time =
        named && kRows[i].since <= version && (best == kSymbolCount || kRows[i].since >= kRows[best].since);
    const int score = 4 * named + 2 * in_time + (kRows[i].per_thread == per_thread);
    if (score > best_score) {
      best = i;
      best_score = score;
    }
  }
  if (best == kSymbolCount)
    return is_passed_on(name) ? function : entry_of_unlisted(exported_name(function, name), function);
  return is_ours(best) ? own_entry(static_cast<Symbol>(best)) : function;
}

int answer(int result, const char* name, void** function, int version, std::uint64_t flags) noexcept {
  if (result != kSuccess || name == nullptr || function == nullptr || *function == nullptr) return result;
  if (environment().governed) *function = translate(name, *function, version, flags);
  return result;
}

}  // namespace
}  // namespace ration::guard

using ration::guard::Symbol;

extern "C" {

[[gnu::visibility("default")]] int cuGetProcAddress(const char* name, void** function, int version,
                                                    std::uint64_t flags) noexcept {
  using namespace ration::guard;
  return answer(real<GetProcAddress>(Symbol::cuGetProcAddress)(name, function, version, flags), name, function, version,
                flags);
}

[[gnu::visibility("default")]] int cuGetProcAddress_v2(const char* name, void** function, int version,
                                                       std::uint64_t flags, int* status) noexcept {
  using namespace ration::guard;
  return answer(real<GetProcAddress2>(Symbol::cuGetProcAddress_v2)(name, function, version, flags, status), name,
                function, version, flags);
}

}  // extern "C"
