// The check, before a program starts, that its limit will hold. Used by every verb that starts a program under a limit.
// Promise: no program starts ungoverned without a message.
#pragma once

#include "admission/plan.hpp"
#include "base/result.hpp"
#include "cli/start/run_options.hpp"
#include "machine/enforcement.hpp"

namespace ration::cli {

/// Checks that the guard in `folder` can be preloaded. Fails with E1406.
[[nodiscard]] Result<void> check_guard_files(const std::string& folder, bool with_audit);

/// Examines the program in `options` under the variables of `plan`. Reports a missing program as held, since it cannot
/// start anyway.
[[nodiscard]] machine::Enforcement examine(const RunOptions& options, const admission::Plan& plan);

/// Returns E1404 if the limit would not hold. With --allow-ungoverned, only prints on standard error that nothing holds
/// the program.
[[nodiscard]] Result<void> refuse_ungoverned(const RunOptions& options, const machine::Enforcement& examined);

}  // namespace ration::cli
