// A placement as JSON: `data` of `ration plan -o json` and of POST /api/v1/plan, schema ration.plan/1.
#pragma once

#include <nlohmann/json.hpp>

#include "node/queue/placement.hpp"

namespace ration::node {

[[nodiscard]] nlohmann::json to_json(const Placement& placement);

}  // namespace ration::node
