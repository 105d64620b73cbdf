// What loaded code takes of each context: images lie side by side in its granules, so the context is charged whole
// granules of their sum. Used by modules.cpp and libraries.cpp. Promises: at no time is less charged than the granules
// of all that is loaded; no load is denied for a granule that another one has room in; thread-safe.
#pragma once

#include "driver/code_image.hpp"
#include "shim/hooks/governor.hpp"

namespace ration::shim {

/// Charges `size` more in the context of `place`, for `function`. False: denied, which is on the record.
[[nodiscard]] bool charge_code(const Place& place, Bytes size, const char* function) noexcept;
/// Charges it whether it fits or not: it is there already.
void charge_code_unconditionally(const Place& place, Bytes size) noexcept;
/// Gives so much back, if the context still lives.
void refund_code(std::uint64_t context, Bytes size) noexcept;
/// As refund_code(), of what the driver did not load: it counts as never held.
void undo_code(std::uint64_t context, Bytes size) noexcept;
/// Everything that was loaded in the context of that number is gone with it.
void code_of_context_is_gone(std::uint64_t context) noexcept;
/// What was charged in a context before it had its number is the context's.
void adopt_code(std::uint64_t handle, std::uint64_t number) noexcept;

/// Of the device behind an ordinal.
[[nodiscard]] driver::Capability capability_of(cuda::CUdevice device) noexcept;
/// What the image at that address, or in that file, tells on a device.
[[nodiscard]] driver::CodeImage image_in_memory(const void* image, driver::Capability device) noexcept;
[[nodiscard]] driver::CodeImage image_in_file(const char* path, driver::Capability device) noexcept;

}  // namespace ration::shim
