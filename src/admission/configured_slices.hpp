// The `slices` of a [[device]] in the configuration. Used by the daemon at its start and after a reload.
#pragma once

#include <string>
#include <vector>

#include "book/store.hpp"
#include "config/configuration.hpp"
#include "machine/devices.hpp"

namespace ration::admission {

/// Cuts devices as the configuration says, and makes those whole that it no longer slices. `devices` have as `total`
/// the memory that may be cut. A device that a user cut with `ration split` stays as it is, and so does one with an
/// occupied slice. The caller holds the store's lock. Returns a sentence for every device that was changed or could not
/// be.
[[nodiscard]] std::vector<Message> apply_configured_slices(const book::Store& store,
                                                           const config::Configuration& configuration,
                                                           const std::vector<machine::Device>& devices);

}  // namespace ration::admission
