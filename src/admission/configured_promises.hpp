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
/// each device without that room, placed at the first guarantee for which the room is missing, and a problem for each
/// device that is smaller than its memory to keep free or than its slices. Does not report slices that fit by
/// themselves but not together with the guarantees: the daemon reports those slices when it cuts them.
[[nodiscard]] std::vector<FileProblem> broken_promises(const config::Configuration& configuration,
                                                       const std::vector<machine::Device>& devices);

/// Returns the first problem as E1304.
[[nodiscard]] Error too_much(const std::vector<FileProblem>& broken);

}  // namespace ration::admission
