// The table of slots that lead to the real driver's functions. Used by the hooks (guard/hooks), the governor and the
// resolving functions (guard/proc_address.cpp).
//
// There is one slot per driver function. At first each slot leads to a stub that finds the real function, stores it in
// the slot and goes on to it with every argument unchanged; from then on a call costs one indirect jump. Promises:
// callable from any thread at any time, also from constructors and atexit handlers; nothing here allocates, prints or
// locks; a function that the driver lacks returns CUDA_ERROR_NOT_FOUND, and without a driver every function returns
// CUDA_ERROR_NO_DEVICE.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ration::guard {

/// Every function of the driver, by its exported name (`Symbol::cuMemAlloc_v2`). The value is its slot.
enum class Symbol : std::uint32_t {
#define RATION_DRIVER_SYMBOL(index, symbol, ...) symbol,
#include "guard/driver_symbols.inc"
#undef RATION_DRIVER_SYMBOL
  kCount
};

inline constexpr std::size_t kSymbolCount = static_cast<std::size_t>(Symbol::kCount);

extern "C" {
/// The slots. Only the resolver writes them; a slot never becomes null.
[[gnu::visibility("hidden")]] extern void* ration_slots[];
/// The guard's exported functions in the order of the slots: a hook if there is one, otherwise the trampoline.
[[gnu::visibility("hidden")]] extern void* const ration_own_entries[];
/// The trampolines in the same order, even for functions that have a hook.
[[gnu::visibility("hidden")]] extern void* const ration_trampolines[];
}

/// Returns the real function behind `symbol`, as in `real<cuda::cuMemAlloc_v2_t>(Symbol::cuMemAlloc_v2)(&pointer,
/// size)`. The result is never null; has_real() says if the driver has the function, and must be called before
/// the result is compared or handed out.
template <typename Function>
[[nodiscard]] inline Function* real(Symbol symbol) noexcept {
  return reinterpret_cast<Function*>(
      __atomic_load_n(&ration_slots[static_cast<std::size_t>(symbol)], __ATOMIC_ACQUIRE));
}

/// Returns true if the installed driver exports `symbol`. Loads the driver.
[[nodiscard]] bool has_real(Symbol symbol) noexcept;

/// Returns the real function's address, or null if the driver lacks it. Loads the driver.
[[nodiscard]] void* real_address(Symbol symbol) noexcept;

/// Returns true if a driver was found. Loads it.
[[nodiscard]] bool driver_present() noexcept;

/// Returns the function that this library exports under the name of `symbol`.
[[nodiscard]] inline void* own_entry(Symbol symbol) noexcept {
  return ration_own_entries[static_cast<std::size_t>(symbol)];
}

/// Returns true if a hook has the name of `symbol`, whatever the table says about it.
[[nodiscard]] inline bool is_hooked(Symbol symbol) noexcept {
  return own_entry(symbol) != ration_trampolines[static_cast<std::size_t>(symbol)];
}

/// Returns the exported name of `symbol`.
[[nodiscard]] const char* name_of(Symbol symbol) noexcept;

}  // namespace ration::guard
