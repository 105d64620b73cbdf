// The slots of the NVML shim, as shim/real.hpp has those of the driver's. Used by nvml_*.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ration::shim {

enum class NvmlSymbol : std::uint32_t {
#define RATION_NVML_SYMBOL(index, symbol, ...) symbol,
#include "shim/nvml_symbols.inc"
#undef RATION_NVML_SYMBOL
  kCount
};

inline constexpr std::size_t kNvmlSymbolCount = static_cast<std::size_t>(NvmlSymbol::kCount);

extern "C" {
[[gnu::visibility("hidden")]] extern void* ration_slots[];
}

/// The real NVML function. Never null.
template <typename Function>
[[nodiscard]] inline Function* real_nvml(NvmlSymbol symbol) noexcept {
  return reinterpret_cast<Function*>(
      __atomic_load_n(&ration_slots[static_cast<std::size_t>(symbol)], __ATOMIC_ACQUIRE));
}

}  // namespace ration::shim
