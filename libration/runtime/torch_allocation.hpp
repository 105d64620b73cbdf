#pragma once
// Allocates for PyTorch, and returns a denial as a text instead of throwing.
#include <cstddef>

namespace ration::runtime {

/// Allocates from the default runtime. Returns null and sets `*out` to the memory, or to null if `size` is not above 0.
/// On a denial, returns the text of the denial, which is valid until the thread's next failure.
[[gnu::noinline]] const char* allocate_for_torch(std::ptrdiff_t size, int device, void* stream, void** out) noexcept;

}  // namespace ration::runtime
