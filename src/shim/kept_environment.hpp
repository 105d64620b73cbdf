// What a program that this process starts has of the guard: the preload, the audit library, the book. A launcher that
// sets LD_PRELOAD for its children, or clears their environment, would start them past the limit; the routes of the
// exec family put back what is missing. Used by exec_route.cpp. Promises: async-signal-safe but for put_back_here(); no
// lock, no heap, so a child of vfork() may call it; an environment that has everything is passed on as it is.
#pragma once

#include <cstddef>

namespace ration::shim {

/// Bytes that with_guard() needs for this environment; 0: nothing is missing in it, or nothing is to be put back.
[[nodiscard]] std::size_t room_for_guard(char* const* given) noexcept;

/// Writes into `room` the environment `given` with the guard in front of what it preloads, and returns it.
[[nodiscard]] char** with_guard(char* const* given, void* room) noexcept;

/// Puts what is missing back into the environment of this process: what libc's system() hands on.
void put_back_here() noexcept;

}  // namespace ration::shim
