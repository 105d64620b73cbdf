// `ration set`: other limits and guarantees of workloads and tenants, while they run. A change is in the book when
// these return.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "node/state/caller.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

/// What a change did, or would do, on one device.
struct LimitChanged {
  std::string path;  ///< of its book
  std::string workload;
  std::optional<int> gpu;  ///< absent: the device is not on this machine
  Bytes old_limit, limit, effective, old_guarantee, guarantee, used;
  std::optional<Bytes> device_free;  ///< absent: the driver could not be asked
  std::string held_back_by;          ///< why effective < limit; empty: it is not
};

struct LimitRequest {
  std::string workload, limit, guarantee;         ///< sizes as typed; empty: stays
  std::string gpu;                                ///< empty: on every device it has
  std::optional<std::uint64_t> expected_changes;  ///< If-Match; E1503 where somebody was faster
  bool dry_run = false;
};

/// E1801 E1502 E1503 E1104 E1304 E1305 E1411.
[[nodiscard]] Result<std::vector<LimitChanged>> change_workload(NodeState& state, const LimitRequest& request,
                                                                const Caller& caller, Events& events);
/// What holds of them since the last tick.
void refresh(const Snapshot& snapshot, std::vector<LimitChanged>& changes);
/// The same for a tenant of the configuration: `workload` is its name. Operators only. E1801 E1502 E1503 E1304 E1305.
[[nodiscard]] Result<std::vector<TenantChange>> change_tenant(NodeState& state, const LimitRequest& request,
                                                              const Caller& caller, Events& events);

}  // namespace ration::node
