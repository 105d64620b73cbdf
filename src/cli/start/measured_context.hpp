// The cost of a context, which depends on the device and its driver.
#pragma once

#include <optional>
#include <string>

#include "cli/session/session.hpp"
#include "machine/devices.hpp"

namespace ration::cli {

/// Returns what one context costs on a device, measured in a process of its own, so that no context stays in this one;
/// nothing where it cannot be made.
[[nodiscard]] std::optional<Bytes> measured_context(const Session& session, const machine::Device& device);
/// Makes a context on that device and prints its bytes: the verb of the process above. Exit code 3 where it cannot.
Result<int> measure_context(const Session& session, const std::string& uuid);

}  // namespace ration::cli
