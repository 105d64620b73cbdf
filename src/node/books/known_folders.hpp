// The folders whose books a daemon governs, kept over a restart. Used by the engine.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "node/books/registry.hpp"
#include "node/state/state_file.hpp"

namespace ration::node {

/// Each with its owner. E1531.
[[nodiscard]] Result<void> save_folders(StateFile& file,
                                        const std::vector<std::pair<std::string, std::uint32_t>>& folders);
/// Has the registry read those that were saved; one that is gone, or has another owner by now, is left out.
void adopt_folders(StateFile& file, Registry& registry);

}  // namespace ration::node
