// Examines the files and the dynamic loader of a program that has not started yet, and says whether the guard can stand
// in front of the driver in that program. Used by `ration run` and `ration doctor`. Promises: `kProgram` is returned
// only if the loader will really preload the guard; nothing of the program runs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ration::machine {

enum class Hold {
  kProgram,   ///< the guard is loaded into the program
  kChildren,  ///< the program cannot load a driver itself; programs that it starts inherit the guard
  kNothing,   ///< the program could reach the GPU without the guard
};

struct Enforcement {
  std::string program;  ///< the file that would run; for a script its interpreter
  Hold hold = Hold::kProgram;
  std::string reason;   ///< why the guard is not loaded into the program itself
  std::string instead;  ///< what to type; may be empty
};

/// Examines a program. `words` is its command line as typed; the first is a path, or a name to find in PATH. `sets`
/// holds variables that the program gets in addition to this process's own; if LD_PRELOAD is one of them, the loader is
/// asked whether it accepts those files. Returns nothing if no file that can be started has that name.
[[nodiscard]] std::optional<Enforcement> examine_program(const std::vector<std::string>& words,
                                                         const std::map<std::string, std::string>& sets = {});

}  // namespace ration::machine
