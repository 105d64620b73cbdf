// The search for the real driver and the real NVML of this process: the files that its program would load without the
// guard. Used by the trampolines when the first function is called. Promises: no allocation; files are offered by
// absolute path, so that neither a preload nor a RUNPATH decides.
#pragma once

#include "driver/location.hpp"

namespace ration::guard {

/// Offers one candidate after the other, the most likely first. If RATION_DRIVER_PATH is set, offers only files in that
/// folder.
bool look_for_driver(driver::Take* take, void* context) noexcept;
bool look_for_nvml(driver::Take* take, void* context) noexcept;

/// Records that code at `caller` requests the driver at run time, by a path or by its name (`path` is null). As without
/// the guard, the first request decides which driver the process uses; if a library that is linked with the driver is
/// loaded already, that library decides.
void note_request(const char* path, const void* caller) noexcept;

}  // namespace ration::guard
