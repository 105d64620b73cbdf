// Filters the snapshot by the parameter `?filter=`, in the language of rows/filter.hpp.
#pragma once

#include "http/message.hpp"
#include "node/snapshot/snapshot_json.hpp"

namespace ration::node {

/// Returns the snapshot with all its devices, but only with the workloads and ungoverned processes that match the
/// filter. The filter tests only fields that the viewer sees. Returns nothing if the request has no filter. Fails with
/// E1429 for an invalid filter.
[[nodiscard]] Result<std::optional<Snapshot>> filtered(const Snapshot& snapshot, const http::Request& request,
                                                       const Viewer& viewer);

}  // namespace ration::node
