// Whether the shim can stand in front of the driver in a given program: what its files say, and what its own dynamic
// loader says, before it starts. Used by `ration run` and `ration doctor`. Promise: says "held" only for what the
// loader will really preload into; nothing of the program runs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ration::machine {

enum class Hold {
  kProgram,   ///< the guard is loaded into it
  kChildren,  ///< it cannot load a driver itself; what it starts inherits the guard
  kNothing,   ///< it could reach the GPU without the guard
};

struct Enforcement {
  std::string program;  ///< the file that would run; a script's interpreter
  Hold hold = Hold::kProgram;
  std::string reason;   ///< why not the program itself
  std::string instead;  ///< what to type; may be empty
};

/// `words`: as typed; the first is a path, or a name to find in PATH. `sets`: variables that the program gets beside
/// this process's own; with LD_PRELOAD among them, the loader is asked whether it takes that. Absent: there is no such
/// file.
[[nodiscard]] std::optional<Enforcement> examine_program(const std::vector<std::string>& words,
                                                         const std::map<std::string, std::string>& sets = {});

}  // namespace ration::machine
