// What a check of `ration doctor` finds, and the checks of what runs at this moment. Used by doctor*.cpp.
#pragma once

#include <string>
#include <utility>

#include "cli/session/session.hpp"

namespace ration::cli {

enum class Verdict { kOk, kWarn, kFail };
struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string text, fix;
  nlohmann::json details = nlohmann::json::object();  ///< further fields of its row as JSON
};
inline Finding ok(std::string text) { return {Verdict::kOk, std::move(text), {}, nlohmann::json::object()}; }
inline Finding warn(std::string text, std::string fix) {
  return {Verdict::kWarn, std::move(text), std::move(fix), nlohmann::json::object()};
}
inline Finding bad(std::string text, std::string fix) {
  return {Verdict::kFail, std::move(text), std::move(fix), nlohmann::json::object()};
}
inline Finding bad(const Error& error) { return bad(error.what, error.fix); }

/// Whether somebody answers at the daemon's socket, and when its last tick was.
Finding check_daemon(const Session& session);
/// What holds the limits of those who run by now.
Finding check_enforcer(const Session& session);
/// Functions that ration does not know: those that the driver exports, and those that running workloads called.
Finding check_functions(const Session& session);
Finding check_ungoverned(const Session& session);
/// Memory that is in use, of no process and in no book.
Finding check_orphaned(const Session& session);

/// The folders that ration has, each with its size: its own, that of the books, the daemon's, those of simulated nodes.
Finding check_package(const Session& session);
Finding check_runtime(const Session& session);
Finding check_state(const Session& session);
Finding check_simulated_nodes(const Session& session);

}  // namespace ration::cli
