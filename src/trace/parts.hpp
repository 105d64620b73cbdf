// The parts of a recording while its program runs, or after its `ration run` was killed: one file a process, as the
// guard writes them (guard/recorder/record_layout.hpp), made events. Used by `ration run`, which packs them, and by
// everything that opens a recording.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "trace/event.hpp"

namespace ration::trace {

/// Opens the parts beside `path`. Events are merged by time while they are read; those that a process was writing when
/// it was killed are left out. Fails with E1811.
[[nodiscard]] Result<std::unique_ptr<Recording>> open_parts(const std::string& path);

}  // namespace ration::trace
