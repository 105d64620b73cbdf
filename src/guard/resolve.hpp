// The search for the wrapped library and its functions. Used by both guards; each defines its own kWrapped
// (trampolines_driver.cpp, trampolines_nvml.cpp). Promises: thread-safe without a lock (two threads that race for the
// first call do the same work twice, with the same result); the library is loaded once, by absolute path, with a handle
// that only the guard has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver/location.hpp"

namespace ration::guard {

/// The library behind a guard.
struct Wrapped {
  const char* prefix;        ///< the prefix of all its functions' names
  const char* const* names;  ///< the exported functions, in the order of the slots
  std::size_t count;
  /// Offers the files that may be the real library (driver_location.hpp).
  bool (*look)(driver::Take* take, void* context) noexcept;
  /// Returns the function that answers in place of function `index` if the library lacks it, or if there is no library
  /// (`library` is false).
  void* (*stand_in)(std::uint32_t index, bool library) noexcept;
};

extern const Wrapped kWrapped;

/// Returns the real library, loaded at the first call, or null if there is none.
[[nodiscard]] void* wrapped_library() noexcept;

/// Returns the real function in slot `index`, or null.
[[nodiscard]] void* wrapped_address(std::uint32_t index) noexcept;

/// Loads the first library offered by `look` that can be loaded. Returns null if there is none.
[[nodiscard]] void* open_first(bool (*look)(driver::Take* take, void* context) noexcept) noexcept;

/// Opens a library by libc's own dlopen(), not by the guard's.
[[nodiscard]] void* open_real_library(const char* path) noexcept;

}  // namespace ration::guard
