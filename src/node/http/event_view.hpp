// Events as JSON (docs/http-api.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "history/history.hpp"
#include "node/snapshot/snapshot_json.hpp"

namespace ration::node {

/// Renders an event; `with_details` adds pid and `why`, for viewers who may see the workload.
[[nodiscard]] nlohmann::json event_json(const history::Event& event, bool with_details);
/// Returns true if the viewer may see the event's process and reason, as its owner and operators may.
[[nodiscard]] bool may_see_details(const history::Event& event, const Viewer& viewer);
/// Shows an operator the command itself if the recorded fix tells the owner to ask an operator.
void address_fix(nlohmann::json& row, const history::Event& event, const Viewer& viewer);
/// Renders a denial as `ration why` shows it, for a viewer who may see it. `fix_now` is the command that helps now,
/// while the workload runs; if it is empty, the recorded fix is shown.
[[nodiscard]] nlohmann::json denial_json(const history::Event& event, const Viewer& viewer, const std::string& fix_now);

}  // namespace ration::node
