#pragma once
// The calls of Python functions that led into the guard, read from the interpreter's frames. Used by the call sites of
// the recorder. Promises: neither Python's lock nor its functions that make objects are used, nothing is allocated, and
// only frames of the calling thread are read, which stand still while it is in the guard. Versions whose frames are not
// known give no calls.
#include <cstddef>

#include "guard/recorder/record_layout.hpp"

namespace ration::guard {

/// Finds the interpreter if this program is one, or is linked with one. Called once, while the guard is loaded.
void find_python() noexcept;

/// Puts the calls of this thread, the innermost first, into `frames`, of at most `most`. Returns how many there are; 0
/// if no Python function led here.
[[nodiscard]] std::size_t python_calls(StackFrame* frames, std::size_t most) noexcept;

}  // namespace ration::guard
