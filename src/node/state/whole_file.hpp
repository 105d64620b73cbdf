// Writes the small files of the daemon's state; state_file.hpp reads them. Promise: whoever reads one finds the old
// content or the new one, whenever the writer dies.
#pragma once

#include <string>

#include "base/result.hpp"

namespace ration::node {

/// E1531.
[[nodiscard]] Result<void> write_whole_file(const std::string& path, const std::string& content);

}  // namespace ration::node
