// Determines before a program starts whether the guard can stand in front of the driver in it, from its files and its
// own dynamic loader. Used by `ration run` and `ration doctor`. Promises: returns "held" only for what the loader will
// really preload into; nothing of the program runs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ration::machine {

enum class Hold {
  kProgram,   ///< the guard is loaded into it
  kChildren,  ///< it cannot load a driver itself; programs that it starts inherit the guard
  kNothing,   ///< it could reach the GPU without the guard
};

struct Enforcement {
  std::string program;  ///< the file that would run; a script's interpreter
  Hold hold = Hold::kProgram;
  std::string reason;   ///< why the program itself is not held
  std::string instead;  ///< what to type; may be empty
};

/// Examines a program. `words` are its arguments as typed; the first is a path, or a name to find in PATH. `sets` are
/// variables that the program gets beside this process's own; with LD_PRELOAD among them, the loader is asked whether
/// it accepts that. Absent: there is no such file.
[[nodiscard]] std::optional<Enforcement> examine_program(const std::vector<std::string>& words,
                                                         const std::map<std::string, std::string>& sets = {});

}  // namespace ration::machine
