// `?filter=`: the rows of the snapshot that somebody wants to see. The language is that of rows/filter.hpp.
#pragma once

#include "http/message.hpp"
#include "node/snapshot/snapshot_json.hpp"

namespace ration::node {

/// The snapshot with those of its workloads and ungoverned processes that match, as the viewer sees them; its devices
/// are whole. Absent: the request has no filter. E1429.
[[nodiscard]] Result<std::optional<Snapshot>> filtered(const Snapshot& snapshot, const http::Request& request,
                                                       const Viewer& viewer);

}  // namespace ration::node
