// Keeps measurements of a device with its driver, which are valid until the device or the driver changes: the cost of a
// context, and whether memory could be moved. Each subject has a JSON file in the runtime folder; a lost measurement is
// made again.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "machine/devices.hpp"

namespace ration::machine {

/// Returns a measurement; null if there is none.
[[nodiscard]] nlohmann::json measured(const std::string& file, const Device& device, const std::string& driver_version);
void remember(const std::string& file, const Device& device, const std::string& driver_version, nlohmann::json value);

}  // namespace ration::machine
