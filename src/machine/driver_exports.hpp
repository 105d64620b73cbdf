// Finds functions that the installed driver and NVML export beyond ration's tables. Used by `ration doctor`.
#pragma once

#include <string>
#include <vector>

namespace ration::machine {

/// Returns the functions of both libraries that no table lists and whose names suggest memory, sorted; also empty if a
/// library is missing. `folder` as in query_devices().
[[nodiscard]] std::vector<std::string> unlisted_exports(const std::string& folder);

}  // namespace ration::machine
