// Filters the snapshot by `?filter=`, in the language of rows/filter.hpp.
#pragma once

#include "http/message.hpp"
#include "node/snapshot/snapshot_json.hpp"

namespace ration::node {

/// Returns the snapshot with only the matching workloads and ungoverned processes, judged by what the viewer sees; its
/// devices stay complete. Absent if the request has no filter. Fails with E1429 for an invalid filter.
[[nodiscard]] Result<std::optional<Snapshot>> filtered(const Snapshot& snapshot, const http::Request& request,
                                                       const Viewer& viewer);

}  // namespace ration::node
