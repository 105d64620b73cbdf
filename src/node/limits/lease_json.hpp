// Leases as docs/http-api.md has them. Used by the paths of the queue and in the snapshot.
#pragma once

#include <nlohmann/json.hpp>

#include "node/queue/leases.hpp"
#include "node/snapshot/snapshot_json.hpp"

namespace ration::node {

/// Its command only for those who may see its owner's.
[[nodiscard]] nlohmann::json lease_json(const LeaseView& lease, const Viewer& viewer);
/// Those that wait, in the order in which they will go.
[[nodiscard]] nlohmann::json waiting_json(const Leases& leases, const Viewer& viewer);

}  // namespace ration::node
