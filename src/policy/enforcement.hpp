// Whether the shim can stand in front of the driver in a given program: what is read off its file before it starts.
// Used by `ration run` and `ration doctor`. Promise: says "holds" only for what the dynamic loader will really preload
// into.
#pragma once

#include <optional>
#include <string>

namespace ration::policy {

struct Enforcement {
  std::string program;  ///< the file that would run; a script's interpreter
  std::string escape;   ///< why the limit would not hold for it; empty: it holds
};

/// `program` as typed: a path, or a name to find in PATH. Absent: no such file, or not readable.
[[nodiscard]] std::optional<Enforcement> examine_program(const std::string& program);

}  // namespace ration::policy
