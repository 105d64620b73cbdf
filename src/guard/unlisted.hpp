// Unlisted functions: functions that the wrapped library has and the guard's table lacks, because they are private or
// belong to a later release. Their effect is unknown, so calls of them are passed on. If the name may concern memory,
// the first call is noted in the book, so that the book shows which calls may take memory that the limit does not hold.
// Used by proc_address.cpp, symbol_route.cpp and resolve.cpp. Promises: thread-safe without a lock; no allocation;
// nothing is added to a call after the first.
#pragma once

#include <cstdint>

namespace ration::guard {

/// Returns the entry for `name`, which the wrapped library resolves to `function`. The entry notes the first call, not
/// the look-up, because a CUDA runtime looks up every name it knows when it starts. When all entries are used up, the
/// look-up itself is noted.
[[nodiscard]] void* entry_of_unlisted(const char* name, void* function) noexcept;

/// Notes the first call of entry `number` and returns the function behind it. Called by ration_resolve().
[[nodiscard]] void* first_call_of_unlisted(std::uint32_t number) noexcept;

/// Enters in the book that a process called `name`. The driver's and NVML's guards each define it; `name` is valid only
/// during the call.
void note_unlisted(const char* name) noexcept;

}  // namespace ration::guard
