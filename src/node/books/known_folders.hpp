// The folders with books: those of other users, and those that a daemon governs, kept over a restart.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "node/books/registry.hpp"
#include "node/state/state_file.hpp"

namespace ration::node {

/// Returns the folders of other users' books at their usual places, with their owners. Empty unless this user is root
/// and no RATION_RUNTIME_DIR is set.
[[nodiscard]] std::vector<std::pair<std::string, std::uint32_t>> folders_of_others();

/// Saves each folder with its owner. Fails with E1531.
[[nodiscard]] Result<void> save_folders(StateFile& file,
                                        const std::vector<std::pair<std::string, std::uint32_t>>& folders);
/// Registers the saved folders, except those that are gone or have changed their owner.
void restore_folders(StateFile& file, Registry& registry);

}  // namespace ration::node
