// The part of `ration whatif` that runs the program itself: on a simulated GPU, under the limit that was asked for.
#pragma once

#include <string>
#include <vector>

#include "cli/session/session.hpp"
#include "cli/verbs/verbs.hpp"
#include "trace/whatif/answer.hpp"

namespace ration::cli {

struct RealRun {
  bool passed = false;  ///< the program ended with 0
  int exit_code = 0;
  std::string gpus;                ///< the simulated ones, as --sim takes them
  std::vector<std::string> words;  ///< what was run
  std::vector<trace::DeviceCharges> devices;
};

/// Runs the program of a recording, or the one that was typed, and records it. What it prints goes to standard error.
/// Fails with E1817 if the recording does not say what to run, or on what.
[[nodiscard]] Result<RealRun> run_really(const Session& session, const WhatIfOptions& options,
                                         const trace::Recording& recording);

}  // namespace ration::cli
