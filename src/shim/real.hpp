// The way from a hook to the real driver, and the one table of this library.
// Used by the hooks (shim/hooks), the governor and the resolving functions (shim/proc_address.cpp).
//
// One slot per driver function. At first each slot leads to a stub that finds the real function, stores it in the slot
// and goes on to it with every argument untouched; from then on a call costs one indirect jump.
// Promises: callable from any thread at any time, from constructors and atexit handlers too; nothing here allocates,
// prints or locks; a function that the driver does not have answers CUDA_ERROR_NOT_FOUND, and where there is no driver
// at all every function answers CUDA_ERROR_NO_DEVICE.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ration::shim {

/// Every function of the driver, by its exported name (`Symbol::cuMemAlloc_v2`). The value is its slot.
enum class Symbol : std::uint32_t {
#define RATION_DRIVER_SYMBOL(index, symbol, ...) symbol,
#include "shim/driver_symbols.inc"
#undef RATION_DRIVER_SYMBOL
  kCount
};

inline constexpr std::size_t kSymbolCount = static_cast<std::size_t>(Symbol::kCount);

extern "C" {
/// The slots. Written by the resolver only; a slot never becomes null.
[[gnu::visibility("hidden")]] extern void* ration_slots[];
/// Our own exported functions in the order of the slots: hooks where there are hooks, else the trampolines.
[[gnu::visibility("hidden")]] extern void* const ration_own_entries[];
/// The trampolines in the same order, whether or not a hook has taken their place.
[[gnu::visibility("hidden")]] extern void* const ration_trampolines[];
}

/// The real function behind `symbol`, as `real<cuda::cuMemAlloc_v2_t>(Symbol::cuMemAlloc_v2)(&pointer, size)`. Never
/// null: ask has_real() where it matters whether the driver has it. Not to be compared or handed out before has_real().
template <typename Function>
[[nodiscard]] inline Function* real(Symbol symbol) noexcept {
  return reinterpret_cast<Function*>(
      __atomic_load_n(&ration_slots[static_cast<std::size_t>(symbol)], __ATOMIC_ACQUIRE));
}

/// Whether the installed driver exports `symbol`. Loads the driver.
[[nodiscard]] bool has_real(Symbol symbol) noexcept;

/// The real function's address, or null where the driver lacks it. Loads the driver.
[[nodiscard]] void* real_address(Symbol symbol) noexcept;

/// Whether a driver was found. Loads it.
[[nodiscard]] bool driver_present() noexcept;

/// What this library exports under the name of `symbol`.
[[nodiscard]] inline void* own_entry(Symbol symbol) noexcept {
  return ration_own_entries[static_cast<std::size_t>(symbol)];
}

/// Whether a hook stands under the name of `symbol`, whatever the table says about it.
[[nodiscard]] inline bool is_hooked(Symbol symbol) noexcept {
  return own_entry(symbol) != ration_trampolines[static_cast<std::size_t>(symbol)];
}

/// The exported name of `symbol`.
[[nodiscard]] const char* name_of(Symbol symbol) noexcept;

}  // namespace ration::shim
