#pragma once
// The call sites of events: the functions through which the program called the driver. Used by the recorder. Promises:
// nothing happens unless RATION_RECORD_SITES asks for it; no lock and no allocation for a stack that was seen before at
// the same position; the comparison reads the program's stack only where it held return addresses before.
#include <cstdint>

namespace ration::guard {

/// Returns true if events have call sites.
[[nodiscard]] bool has_call_sites() noexcept;

/// Returns the number of the text (TextKind::kStack) that lists the calls which led into the guard. Returns 0 if the
/// calls cannot be found. `thread` is a number that no other thread of this process has or had, even before a fork.
[[nodiscard]] std::uint32_t call_site(std::uint32_t thread) noexcept;

}  // namespace ration::guard
