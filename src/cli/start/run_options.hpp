// The options of a program that starts under a limit. Used by every verb that starts one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "admission/plan.hpp"

namespace ration::cli {

/// The engine name of Slurm's jobs, whose books belong to their users although root makes them.
inline constexpr const char* kSlurmEngine = "slurm";

struct RunOptions {
  admission::PlanRequest request;
  std::string asked_gpus;   ///< GPUs to ask the daemon's queue for; set by resolve()
  std::string summary;      ///< auto | always | never | json:FILE
  std::string tensorboard;  ///< folder that gets a file for TensorBoard; empty for none
  bool require_enforced = false;
  bool require_limit = false;  ///< true to fail with E1447 if less than the limit is available at the start
  bool allow_ungoverned = false;
  bool print_env = false;
  bool scope = false;          ///< true to run in a transient scope of systemd
  std::string simulated_cuda;  ///< auto | none | 12 | 13 | 12,13
  bool queue = false;          ///< true to wait in the queue until there is room (--wait)
  std::string wait;            ///< longest wait; empty for no end
  std::optional<int> priority;
  int retries = 0;                   ///< most restarts after a denial ended the program, each with a larger limit
  std::string retry_limit = "+25%";  ///< amount that each retry adds: a share of the limit, or +SIZE
  int denied_exit = 0;               ///< exit code after a denial ended the program; 0 for the program's own
  std::string engine;                ///< container engine that starts `program`; empty if this process does
  std::string record;                ///< file of the recording; empty for none
  bool is_policy_recording = false;  ///< true if a policy of the daemon wants the recording; false if an option does
  std::string record_sites;          ///< call sites that recorded events get: native or python; empty for none
  std::vector<std::string> program;
};

}  // namespace ration::cli
