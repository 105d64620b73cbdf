// What the installed driver and NVML export beyond ration's tables. Used by `ration doctor`.
#pragma once

#include <string>
#include <vector>

namespace ration::machine {

/// Functions of both libraries that no table lists and that may concern memory by their names, sorted; empty too where
/// a library is not there. `folder`: as for query_devices().
[[nodiscard]] std::vector<std::string> unlisted_exports(const std::string& folder);

}  // namespace ration::machine
