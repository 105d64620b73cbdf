// The guard in the environment of a program that this process starts: the preload, the audit library, the book. A
// launcher that sets LD_PRELOAD for its children, or clears their environment, would start them outside the limit; the
// routes of the exec family put the missing entries back. Used by exec_route.cpp. Promises: async-signal-safe, except
// for put_back_here(); no lock, no heap, so a child of vfork() may call it; a complete environment is passed on as it
// is.
#pragma once

#include <cstddef>

namespace ration::guard {

/// Returns the bytes that with_guard() needs for this environment, or 0 if nothing is missing, or if this process was
/// not started with the guard.
[[nodiscard]] std::size_t room_for_guard(char* const* given) noexcept;

/// Writes the environment `given`, with the guard in front of its preloads, into `room` and returns it.
[[nodiscard]] char** with_guard(char* const* given, void* room) noexcept;

/// Puts the missing entries back into the environment of this process, which libc's system() passes on.
void put_back_here() noexcept;

}  // namespace ration::guard
