// What was found out once about a device with its driver, and holds until one of them is another: what a context costs,
// whether programs could be moved. One JSON file a subject in the runtime folder; a lost one is found out again.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "machine/devices.hpp"

namespace ration::machine {

/// Null: nothing is known.
[[nodiscard]] nlohmann::json measured(const std::string& file, const Device& device, const std::string& driver_version);
void remember(const std::string& file, const Device& device, const std::string& driver_version, nlohmann::json value);

}  // namespace ration::machine
