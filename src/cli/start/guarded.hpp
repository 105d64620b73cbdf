// Whether a program will be held before it is started, and the refusal where it will not. Used by every verb that
// starts a program under a limit: none starts without its guard and without a word.
#pragma once

#include "admission/plan.hpp"
#include "base/result.hpp"
#include "cli/start/run_options.hpp"
#include "machine/enforcement.hpp"

namespace ration::cli {

/// What `folder` holds of the guard can be preloaded. E1406.
[[nodiscard]] Result<void> check_guard_files(const std::string& folder, bool with_audit);

/// Of the program in `options` under the variables of `plan`. A program that is not there is taken as held: it does not
/// start.
[[nodiscard]] machine::Enforcement examine(const RunOptions& options, const admission::Plan& plan);

/// E1404 where the limit would not hold, unless --allow-ungoverned was given: then says on standard error that nothing
/// holds it.
[[nodiscard]] Result<void> refuse_ungoverned(const RunOptions& options, const machine::Enforcement& examined);

}  // namespace ration::cli
