// Finds functions that the installed driver and NVML export beyond ration's tables. Used by `ration doctor`.
#pragma once

#include <string>
#include <vector>

namespace ration::machine {

/// Returns the functions of both libraries that no table lists and whose names suggest memory, sorted; empty also if
/// the libraries are missing. `folder` is as in query_devices().
[[nodiscard]] std::vector<std::string> unlisted_exports(const std::string& folder);

}  // namespace ration::machine
