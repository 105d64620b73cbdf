// Opens a recording for reading, whatever its format.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "trace/event.hpp"

namespace ration::trace {

/// Opens the recording at `path`: the file of `ration run --record`, its parts while it is written, an allocation
/// history (CSV), or a file that a framework dumped (import/importers.hpp). Fails with E1811 or E1816.
[[nodiscard]] Result<std::unique_ptr<Recording>> open_recording(const std::string& path);

}  // namespace ration::trace
