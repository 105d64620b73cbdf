// The charge for loaded code. Images lie side by side in a context's granules, so a context is charged the granules
// that all its images need together. Used by modules.cpp and libraries.cpp. Promises: the charge always covers the
// granules of all loaded code; no load is denied a granule while another granule has room; thread-safe.
#pragma once

#include "driver/code_image.hpp"
#include "guard/hooks/governor.hpp"

namespace ration::guard {

/// Charges `size` more bytes in the context of `place`, for `function`. Returns false if denied; the denial is
/// recorded.
[[nodiscard]] bool charge_code(const Place& place, Bytes size, const char* function) noexcept;
/// Charges code that is loaded already, whether it fits or not.
void charge_code_unconditionally(const Place& place, Bytes size) noexcept;
/// Refunds `size` bytes if the context still exists.
void refund_code(std::uint64_t context, Bytes size) noexcept;
/// Refunds code that the driver failed to load, which counts as never held.
void undo_code(std::uint64_t context, Bytes size) noexcept;
/// Forgets the code of the context with that number, which has ended.
void code_of_context_is_gone(std::uint64_t context) noexcept;
/// Moves code that was charged under a context's handle, because the context had no number yet, to that number.
void renumber_code(std::uint64_t handle, std::uint64_t number) noexcept;

/// Returns the compute capability of the device with that ordinal.
[[nodiscard]] driver::Capability capability_of(cuda::CUdevice device) noexcept;
/// Reads the sizes of the code image at that address, or in that file, for a device.
[[nodiscard]] driver::CodeImage image_in_memory(const void* image, driver::Capability device) noexcept;
[[nodiscard]] driver::CodeImage image_in_file(const char* path, driver::Capability device) noexcept;

}  // namespace ration::guard
