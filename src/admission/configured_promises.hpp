// Checks whether the present devices have the memory that a configuration promises. Used when a configuration is
// checked or applied.
#pragma once

#include <vector>

#include "config/configuration.hpp"
#include "machine/devices.hpp"

namespace ration::admission {

/// Returns the memory of the device that the configuration keeps free.
[[nodiscard]] Bytes kept_free(const config::Configuration& configuration, const machine::Device& device);

/// Checks that every device has room for the guarantees of tenants and for the memory kept free. Returns a problem for
/// each device that has not, at the first guarantee that exceeds it, and for each device whose kept memory or slices
/// alone exceed it. The daemon reports slices that do not fit beside guarantees when it cuts them.
[[nodiscard]] std::vector<FileProblem> broken_promises(const config::Configuration& configuration,
                                                       const std::vector<machine::Device>& devices);

/// Returns the first problem as E1304.
[[nodiscard]] Error too_much(const std::vector<FileProblem>& broken);

}  // namespace ration::admission
