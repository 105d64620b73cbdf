// Findings of `ration doctor`, and the checks that are not in doctor.cpp. Used by doctor*.cpp.
#pragma once

#include <string>
#include <utility>

#include "cli/session/session.hpp"

namespace ration::cli {

enum class Verdict { kOk, kWarn, kFail, kSkip };
struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string text, fix;
  nlohmann::json details = nlohmann::json::object();  ///< further fields of the finding's row as JSON
};
inline Finding ok(std::string text) { return {Verdict::kOk, std::move(text), {}, nlohmann::json::object()}; }
inline Finding warn(std::string text, std::string fix) {
  return {Verdict::kWarn, std::move(text), std::move(fix), nlohmann::json::object()};
}
inline Finding bad(std::string text, std::string fix) {
  return {Verdict::kFail, std::move(text), std::move(fix), nlohmann::json::object()};
}
/// Returns the finding of a check that could not look, because of a problem that another check reports.
inline Finding skipped(std::string text, std::string fix = {}) {
  return {Verdict::kSkip, std::move(text), std::move(fix), nlohmann::json::object()};
}
inline Finding bad(const Error& error) { return bad(error.what, error.fix); }

/// Checks that a daemon answers at its socket and has ticked lately.
Finding check_daemon(const Session& session);
/// Reports what enforces the limits of running workloads.
Finding check_enforcer(const Session& session);
/// Lists functions that ration does not know: those that the driver exports, and those that running workloads called.
Finding check_functions(const Session& session);
Finding check_ungoverned(const Session& session);
/// Reports memory in use that belongs to no process and no book.
Finding check_orphaned(const Session& session);

/// Reports the size of the package's files. The checks below do the same for the books, the daemon's state and
/// simulated nodes.
Finding check_package(const Session& session);
Finding check_runtime(const Session& session);
Finding check_state(const Session& session);
Finding check_simulated_nodes(const Session& session);

}  // namespace ration::cli
