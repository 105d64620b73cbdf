// Leases as JSON (docs/http-api.md).
#pragma once

#include <nlohmann/json.hpp>

#include "node/queue/leases.hpp"
#include "node/snapshot/snapshot_json.hpp"

namespace ration::node {

/// Renders a lease. Includes the command only if the viewer may see workloads of the lease's owner.
[[nodiscard]] nlohmann::json lease_json(const LeaseView& lease, const Viewer& viewer);
/// Returns the waiting leases, in the order in which they will be granted.
[[nodiscard]] nlohmann::json waiting_json(const Leases& leases, const Viewer& viewer);

}  // namespace ration::node
