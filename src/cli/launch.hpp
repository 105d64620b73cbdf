// One program started and waited for, as env(1) would: same process group, same terminal, signals passed on.
#pragma once

#include <string>
#include <vector>

namespace ration::cli {

struct Ended {
  int exit_code = 0;    ///< its own, 128 + signal, 126 (not executable) or 127 (not found)
  int start_error = 0;  ///< errno of a start that failed; 0: it ran
};

[[nodiscard]] Ended launch(const std::vector<std::string>& program);

}  // namespace ration::cli
