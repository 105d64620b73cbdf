// Keeps measurements of a device with its driver, which are valid until either changes: the cost of a context, whether
// programs could be moved. One JSON file per subject in the runtime folder; a lost one is measured again.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "machine/devices.hpp"

namespace ration::machine {

/// Returns a measurement; null: not known.
[[nodiscard]] nlohmann::json measured(const std::string& file, const Device& device, const std::string& driver_version);
void remember(const std::string& file, const Device& device, const std::string& driver_version, nlohmann::json value);

}  // namespace ration::machine
