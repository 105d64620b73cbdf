// Checks whether a configuration can be kept on the present devices. Used when one is checked or applied.
#pragma once

#include <vector>

#include "config/configuration.hpp"
#include "machine/devices.hpp"

namespace ration::admission {

/// Returns the memory of the device that is kept free.
[[nodiscard]] Bytes kept_free(const config::Configuration& configuration, const machine::Device& device);

/// Checks that every device has room for the guarantees of tenants and for what is kept free. Returns a problem for
/// each device that has not, at the first guarantee that exceeds it; also for kept memory, or slices, that exceed a
/// device by themselves. Slices beside guarantees are reported by the daemon when it cuts them.
[[nodiscard]] std::vector<FileProblem> broken_promises(const config::Configuration& configuration,
                                                       const std::vector<machine::Device>& devices);

/// Returns the first of them as E1304.
[[nodiscard]] Error too_much(const std::vector<FileProblem>& broken);

}  // namespace ration::admission
