// The slots of NVML's guard; guard/real.hpp has the slots of the driver's guard. Used by nvml_hooks.cpp and
// trampolines_nvml.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ration::guard {

enum class NvmlSymbol : std::uint32_t {
#define RATION_NVML_SYMBOL(index, symbol, ...) symbol,
#include "guard/nvml_symbols.inc"
#undef RATION_NVML_SYMBOL
  kCount
};

inline constexpr std::size_t kNvmlSymbolCount = static_cast<std::size_t>(NvmlSymbol::kCount);

extern "C" {
[[gnu::visibility("hidden")]] extern void* ration_slots[];
}

/// Returns the real NVML function, never null.
template <typename Function>
[[nodiscard]] inline Function* real_nvml(NvmlSymbol symbol) noexcept {
  return reinterpret_cast<Function*>(
      __atomic_load_n(&ration_slots[static_cast<std::size_t>(symbol)], __ATOMIC_ACQUIRE));
}

}  // namespace ration::guard
