// The cost of a context, which depends on the device and its driver.
#pragma once

#include <optional>
#include <string>

#include "cli/session/session.hpp"
#include "machine/devices.hpp"

namespace ration::cli {

/// Returns the bytes that one context takes on a device; nothing if none can be made. Measures in a process of its own,
/// so that no context stays in this one.
[[nodiscard]] std::optional<Bytes> measured_context(const Session& session, const machine::Device& device);
/// Makes a context on that device and prints its bytes. The process that measured_context() starts runs this verb.
/// Returns exit code 3 if no context can be made.
Result<int> measure_context(const Session& session, const std::string& uuid);

}  // namespace ration::cli
