// Functions that the wrapped library has and our table has not: a later release's, or private ones. Nothing can be
// known of what they do, so they are passed on; where the name may concern memory, the first call is noted in the book,
// so that whoever looks sees what the limit may not hold. Used by proc_address.cpp, symbol_route.cpp and resolve.cpp.
// Promises: thread-safe without a lock; no allocation; nothing is added to a call after the first.
#pragma once

#include <cstdint>

namespace ration::shim {

/// What a caller gets who asked for `name`, and whom the wrapped library would give `function`. What is noted is the
/// call, not the question: a CUDA runtime asks for every name it knows when it starts. Where the entries are used up,
/// the question is.
[[nodiscard]] void* entry_of_unlisted(const char* name, void* function) noexcept;

/// Notes the first call of entry `number` and returns where it leads. Called by ration_resolve().
[[nodiscard]] void* first_call_of_unlisted(std::uint32_t number) noexcept;

/// Enters in the book that a process called `name`. The driver's and NVML's shim each define it; `name` lives only
/// during the call.
void note_unlisted(const char* name) noexcept;

}  // namespace ration::shim
