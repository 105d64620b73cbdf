// What becomes of a file that turned out to be damaged: it is kept, out of the way. Used by the history and by the
// daemon's other state.
#pragma once

#include <string>

namespace ration::history {

/// Renames `path`, whatever lies there, to `path.damaged-TIME`, with what SQLite has beside it. The new name; empty: it
/// cannot be renamed.
[[nodiscard]] std::string set_aside(const std::string& path);

}  // namespace ration::history
