// Finding the wrapped library and its functions. Used by both shims; each says what it wraps (trampolines_driver.cpp,
// trampolines_nvml.cpp).
// Promises: thread-safe without a lock (two threads that come first at once do the same work twice, to the same end);
// the library is loaded once, by absolute path, with a handle of our own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver/location.hpp"

namespace ration::shim {

/// The library behind a shim.
struct Wrapped {
  const char* prefix;        ///< with which the names of all its functions begin
  const char* const* names;  ///< the exported functions, in the order of the slots
  std::size_t count;
  /// Where the real library may lie (driver_location.hpp).
  bool (*look)(driver::Take* take, void* context) noexcept;
  /// What answers in place of function `index`: where the library lacks it, or (`library` false) where there is none.
  void* (*stand_in)(std::uint32_t index, bool library) noexcept;
};

extern const Wrapped kWrapped;

/// The real library, loaded at the first call; null where there is none.
[[nodiscard]] void* wrapped_library() noexcept;

/// The real function in slot `index`, or null.
[[nodiscard]] void* wrapped_address(std::uint32_t index) noexcept;

/// The first library that `look` offers and that can be loaded; null: none.
[[nodiscard]] void* open_first(bool (*look)(driver::Take* take, void* context) noexcept) noexcept;

/// libc's own dlopen, past our interception of it.
[[nodiscard]] void* open_real_library(const char* path) noexcept;

}  // namespace ration::shim
