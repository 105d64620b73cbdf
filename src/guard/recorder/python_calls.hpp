#pragma once
// The calls of Python functions that led into the guard, read from the interpreter's frames. Used by the call sites of
// the recorder. Promises: this takes no lock of Python, calls no function of Python that makes objects, and allocates
// nothing. It reads only frames of the calling thread, which do not change while the thread is in the guard. It finds
// no calls in Python versions whose frames are not known.
#include <cstddef>

#include "guard/recorder/record_layout.hpp"

namespace ration::guard {

/// Finds the interpreter if this program is one, or is linked with one. Called once, while the guard is loaded.
void find_python() noexcept;

/// Writes the innermost `most` Python calls of this thread, the innermost first, to `frames`. Returns the number of
/// calls written; 0 if no Python function led here.
[[nodiscard]] std::size_t python_calls(StackFrame* frames, std::size_t most) noexcept;

}  // namespace ration::guard
