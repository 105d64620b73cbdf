#pragma once
// The call sites of events: through which functions the program came to the driver. Used by the recorder. Promises:
// nothing happens unless RATION_RECORD_SITES asks for it; no lock and no allocation for a stack that stands where it
// was seen before; the program's stack is only read where it held return addresses before.
#include <cstdint>

namespace ration::guard {

/// Returns true if events have call sites.
[[nodiscard]] bool has_call_sites() noexcept;

/// Returns the number of the text (TextKind::kStack) that has the calls which led into the guard. `thread` is a number
/// that no other thread of this process has or had, or had before a fork. Returns 0 if they cannot be found.
[[nodiscard]] std::uint32_t call_site(std::uint32_t thread) noexcept;

}  // namespace ration::guard
