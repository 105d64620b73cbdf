// Applies the `slices` of a [[device]] in the configuration. Used by the daemon at its start and after a reload.
#pragma once

#include <string>
#include <vector>

#include "book/store.hpp"
#include "config/configuration.hpp"
#include "machine/devices.hpp"

namespace ration::admission {

/// Cuts devices as the configuration says, and removes the slices of devices that the configuration no longer slices.
/// The `total` of `devices` is the memory that may be cut. Does not change a device that a user cut with `ration
/// split`, or that has an occupied slice. Requires that the caller holds the store's lock. Returns a sentence for every
/// device that it changed or could not change.
[[nodiscard]] std::vector<Message> apply_configured_slices(const book::Store& store,
                                                           const config::Configuration& configuration,
                                                           const std::vector<machine::Device>& devices);

}  // namespace ration::admission
