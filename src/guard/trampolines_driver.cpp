// The driver's guard: one trampoline for each function of the driver, and the answers without a driver.
#include <cstring>

#include "guard/driver_location.hpp"
#include "guard/real.hpp"
#include "guard/resolve.hpp"
#include "guard/trampoline.hpp"

RATION_TRAMPOLINE_TABLES
#define RATION_DRIVER_SYMBOL(index, symbol, ...) RATION_TRAMPOLINE(#index, #symbol)
#include "guard/driver_symbols.inc"
#undef RATION_DRIVER_SYMBOL

namespace ration::guard {
namespace {

constexpr const char* kNames[] = {
#define RATION_DRIVER_SYMBOL(index, symbol, ...) #symbol,
#include "guard/driver_symbols.inc"
#undef RATION_DRIVER_SYMBOL
};
static_assert(sizeof kNames / sizeof kNames[0] == kSymbolCount);

// The slots are filled in the order of the list, so its indices must count from 0 without gaps.
constexpr std::uint32_t kIndices[] = {
#define RATION_DRIVER_SYMBOL(index, symbol, ...) index,
#include "guard/driver_symbols.inc"
#undef RATION_DRIVER_SYMBOL
};
constexpr bool counts_up() noexcept {
  for (std::uint32_t i = 0; i < kSymbolCount; ++i) {
    if (kIndices[i] != i) return false;
  }
  return true;
}
static_assert(counts_up());

// CUresult values, from the driver API manual.
constexpr int kErrorNoDevice = 100;
constexpr int kErrorInvalidValue = 1;
constexpr int kErrorNotFound = 500;

int no_device() noexcept { return kErrorNoDevice; }
int not_found() noexcept { return kErrorNotFound; }

// Gives a text even without a driver, because programs print the text without a look at the returned error.
int no_driver_error_name(int error, const char** text) noexcept {
  if (text == nullptr) return kErrorInvalidValue;
  *text = error == kErrorNoDevice ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
int no_driver_error_string(int error, const char** text) noexcept {
  if (text == nullptr) return kErrorInvalidValue;
  *text = error == kErrorNoDevice ? "no CUDA-capable device is detected" : "unknown error";
  return 0;
}

void* stand_in(std::uint32_t index, bool library) noexcept {
  if (library) return reinterpret_cast<void*>(&not_found);
  if (static_cast<Symbol>(index) == Symbol::cuGetErrorName) return reinterpret_cast<void*>(&no_driver_error_name);
  if (static_cast<Symbol>(index) == Symbol::cuGetErrorString) return reinterpret_cast<void*>(&no_driver_error_string);
  return reinterpret_cast<void*>(&no_device);
}

}  // namespace

const Wrapped kWrapped{"cu", kNames, kSymbolCount, &look_for_driver, &stand_in};

bool driver_present() noexcept { return wrapped_library() != nullptr; }
void* real_address(Symbol symbol) noexcept { return wrapped_address(static_cast<std::uint32_t>(symbol)); }
bool has_real(Symbol symbol) noexcept { return real_address(symbol) != nullptr; }
const char* name_of(Symbol symbol) noexcept { return kNames[static_cast<std::size_t>(symbol)]; }

}  // namespace ration::guard
