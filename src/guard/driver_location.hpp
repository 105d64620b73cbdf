// The search for the real driver and the real NVML of this process: the files that its program would load without the
// guard. Used by the trampolines when the first function is called. Promises: no allocation; files are offered by
// absolute path, so that neither a preload nor a RUNPATH decides.
#pragma once

#include "driver/location.hpp"

namespace ration::guard {

/// Offers one candidate after the other, the most likely first. If RATION_DRIVER_PATH is set, offers only files there.
bool look_for_driver(driver::Take* take, void* context) noexcept;
bool look_for_nvml(driver::Take* take, void* context) noexcept;

/// Records that code at `caller` asks for the driver while the program runs, by its name (`path` is null) or by a path.
/// The first request decides which driver the process uses, as without the guard, unless an already loaded library is
/// linked with the driver.
void note_request(const char* path, const void* caller) noexcept;

}  // namespace ration::guard
