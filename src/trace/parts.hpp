// Reads the parts of a recording, which exist while its program runs, and after its `ration run` was killed. The guard
// writes one file per process (guard/recorder/record_layout.hpp). Used by `ration run`, which packs the parts, and by
// everything that opens a recording.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "trace/event.hpp"

namespace ration::trace {

/// Opens the parts beside `path`. Merges events by time while they are read. Leaves out an event that a process was
/// writing when it was killed. Fails with E1811 if there are no parts.
[[nodiscard]] Result<std::unique_ptr<Recording>> open_parts(const std::string& path);

}  // namespace ration::trace
