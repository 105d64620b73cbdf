// Events as docs/http-api.md has them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "history/history.hpp"
#include "node/snapshot/snapshot_json.hpp"

namespace ration::node {

/// One event; its `why` only for those who may see the workload.
[[nodiscard]] nlohmann::json event_json(const history::Event& event, bool with_details);
/// Whether the viewer may see an event's process and reason: of their own workloads, and operators all.
[[nodiscard]] bool may_see_details(const history::Event& event, const Viewer& viewer);
/// Where owners are told to ask an operator for a command, an operator is told the command.
void address_fix(nlohmann::json& row, const history::Event& event, const Viewer& viewer);
/// A denial as `ration why` shows it, for somebody who may see it. `fix_now`: what to type while the workload runs;
/// empty: what was said at the time.
[[nodiscard]] nlohmann::json denial_json(const history::Event& event, const Viewer& viewer, const std::string& fix_now);

}  // namespace ration::node
