// Where the real driver and the real NVML of this process lie: what its program would have loaded without the shim.
// Used by the trampolines when the first function is called. Promise: no allocation; files are offered by absolute
// path, so that no preload and no RUNPATH has a say.
#pragma once

#include "driver/location.hpp"

namespace ration::shim {

/// Offers one library after the other, the most likely first. RATION_DRIVER_PATH, if it is set, is the only place.
bool look_for_driver(driver::Take* take, void* context) noexcept;
bool look_for_nvml(driver::Take* take, void* context) noexcept;

/// Somebody asks for the driver while the program runs: code at `caller`, by its name or by a path (else null). The
/// first who does decides which driver the process has, as without the shim, unless something that is loaded already is
/// linked with it.
void note_request(const char* path, const void* caller) noexcept;

}  // namespace ration::shim
