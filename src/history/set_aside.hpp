// Moves a damaged file out of the way. Used by the history and by the daemon's other state.
#pragma once

#include <string>

namespace ration::history {

/// Renames `path`, whatever it is, to `path.damaged-TIME`, together with SQLite's files beside it. Returns the new
/// name; empty if it cannot be renamed.
[[nodiscard]] std::string set_aside(const std::string& path);

}  // namespace ration::history
