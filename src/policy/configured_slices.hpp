// `slices` of a [[device]] in the configuration. Used by the daemon, at its start and after a reload.
#pragma once

#include <string>
#include <vector>

#include "config/configuration.hpp"
#include "ledger/store.hpp"
#include "machine/devices.hpp"

namespace ration::policy {

/// `devices`: with as much memory (`total`) as may be cut. Cuts them as the configuration says, and makes those whole
/// again of which it no longer says anything. A device that somebody cut with `ration split` stays as it is, and so
/// does one with somebody in a slice. The caller holds the store's lock. Returns a sentence for every device that was
/// changed or could not be.
[[nodiscard]] std::vector<std::string> apply_configured_slices(const ledger::Store& store,
                                                               const config::Configuration& configuration,
                                                               const std::vector<machine::Device>& devices);

}  // namespace ration::policy
