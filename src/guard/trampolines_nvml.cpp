// NVML's guard: one trampoline for each function of NVML, and the answers without NVML.
#include <dlfcn.h>

#include "guard/driver_location.hpp"
#include "guard/nvml_symbols.hpp"
#include "guard/resolve.hpp"
#include "guard/trampoline.hpp"

RATION_TRAMPOLINE_TABLES
#define RATION_NVML_SYMBOL(index, symbol, ...) RATION_TRAMPOLINE(#index, #symbol)
#include "guard/nvml_symbols.inc"
#undef RATION_NVML_SYMBOL

namespace ration::guard {
namespace {

constexpr const char* kNames[] = {
#define RATION_NVML_SYMBOL(index, symbol, ...) #symbol,
#include "guard/nvml_symbols.inc"
#undef RATION_NVML_SYMBOL
};
static_assert(sizeof kNames / sizeof kNames[0] == kNvmlSymbolCount);

// nvmlReturn_t values, from the NVML manual.
constexpr int kErrorLibraryNotFound = 12;
constexpr int kErrorFunctionNotFound = 13;

int library_not_found() noexcept { return kErrorLibraryNotFound; }
int function_not_found() noexcept { return kErrorFunctionNotFound; }

void* stand_in(std::uint32_t, bool library) noexcept {
  return library ? reinterpret_cast<void*>(&function_not_found) : reinterpret_cast<void*>(&library_not_found);
}

}  // namespace

const Wrapped kWrapped{"nvml", kNames, kNvmlSymbolCount, &look_for_nvml, &stand_in};

// Calls dlopen(), which may be the function of the driver's guard. That guard passes calls from this library on to libc
// (open_route.cpp).
void* open_real_library(const char* path) noexcept { return ::dlopen(path, RTLD_NOW | RTLD_LOCAL); }

}  // namespace ration::guard
