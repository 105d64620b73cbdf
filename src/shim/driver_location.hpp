// Where the real driver and the real NVML lie. Used by the trampolines when the first function is called.
// Promise: no allocation; the answer is an absolute path, so that no preload and no RUNPATH has a say.
#pragma once

#include <cstddef>

namespace ration::shim {

/// RATION_DRIVER_PATH if it is set and holds the library (then nothing else is tried), else the loader's places.
[[nodiscard]] bool locate_driver(char* path, std::size_t size) noexcept;
[[nodiscard]] bool locate_nvml(char* path, std::size_t size) noexcept;

}  // namespace ration::shim
