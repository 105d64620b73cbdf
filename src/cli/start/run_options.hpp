// What is typed for a program that starts under a limit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "admission/plan.hpp"

namespace ration::cli {

/// The engine of jobs whose book is their user's though root makes it.
inline constexpr const char* kSlurmEngine = "slurm";

struct RunOptions {
  admission::PlanRequest wish;
  std::string asked_gpus;  ///< by resolve(): what the daemon's queue is asked for
  std::string summary;     ///< auto | always | never | json:FILE
  bool require_enforced = false;
  bool require_limit = false;  ///< E1447 where less than the limit can be taken at the start
  bool allow_ungoverned = false;
  bool print_env = false;
  bool scope = false;          ///< in a transient scope of systemd
  std::string simulated_cuda;  ///< auto | none | 12 | 13 | 12,13
  bool queue = false;          ///< --wait: start when there is room
  std::string wait;            ///< at most so long; empty: for ever
  std::optional<int> priority;
  int retries = 0;                   ///< starts again that often, with more, after a denial ended the program
  std::string retry_limit = "+25%";  ///< how much more: of the limit, or +SIZE
  int denied_exit = 0;               ///< the exit code then; 0: the program's own
  std::string engine;                ///< of containers, which starts `program`; empty: a program of this system
  std::vector<std::string> program;
};

}  // namespace ration::cli
