#pragma once
// Allocates for PyTorch, and returns a denial as a text instead of throwing.
#include <cstddef>

namespace ration::runtime {

/// Allocates from the default runtime. Returns the text of a denial, which the thread keeps until its next failure, or
/// null if `*out` is the memory, or null for no bytes.
[[gnu::noinline]] const char* allocate_for_torch(std::ptrdiff_t size, int device, void* stream, void** out) noexcept;

}  // namespace ration::runtime
