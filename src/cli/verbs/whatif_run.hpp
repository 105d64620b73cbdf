// The part of `ration whatif` that runs the program itself: on a simulated GPU, under the limit that was asked for.
#pragma once

#include <string>
#include <vector>

#include "cli/session/session.hpp"
#include "cli/verbs/verbs.hpp"
#include "trace/whatif/answer.hpp"

namespace ration::cli {

struct RealRun {
  bool passed = false;  ///< true if the program ended with 0
  int exit_code = 0;
  std::string gpus;                ///< the simulated GPUs, as --sim takes them
  std::vector<std::string> words;  ///< the program that ran, with arguments
  std::vector<trace::DeviceCharges> devices;
};

/// Runs the program of a recording, or the program that was typed, and records the run. The output of the program goes
/// to standard error. Fails with E1817 if the recording does not name the program or the GPU, or if the program cannot
/// be started.
[[nodiscard]] Result<RealRun> run_really(const Session& session, const WhatIfOptions& options,
                                         const trace::Recording& recording);

}  // namespace ration::cli
