// Requests of `ration set`: limits and guarantees of running workloads and of tenants. A change is in the book when
// these functions return.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "node/limits/limit_moves.hpp"
#include "node/limits/limits.hpp"
#include "node/promises/promises.hpp"
#include "node/request/caller.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

/// The effect of a change, or of a dry run, on one device.
struct LimitChanged {
  std::string path;  ///< path of the workload's book
  std::string workload;
  std::optional<int> gpu;  ///< absent if the device is not on this machine
  Bytes old_limit, limit, in_force, old_guarantee, guarantee, used;
  /// A change of the limit of pinned host memory. This limit belongs to the workload and to no device.
  struct Host {
    Bytes before, after, used;
  };
  std::optional<Host> host;          ///< absent if not requested, or if the result of another device has it
  std::optional<Bytes> device_free;  ///< absent if the driver does not report it
  Message held_back_by;              ///< why `in_force` is below `limit`; empty if it is not
};

/// Subjects of a change of limits.
struct LimitSubjects {
  const Moment& moment;
  Limits& limits;
  LimitMoves& moves;
  const DevicePromises& promises;
};

struct LimitRequest {
  std::string workload, limit, host_limit, guarantee;  ///< sizes as typed; empty if unchanged
  std::string gpu;                                     ///< empty for every device of the workload
  /// The number of changes by people that the client knows, from If-Match. Another number fails with E1503.
  std::optional<std::uint64_t> expected_changes;
  bool dry_run = false;
};

/// Changes the limits of the workload named in `request`. Fails with E1801, E1502, E1503, E1104, E1304, E1305 or E1411.
[[nodiscard]] Result<std::vector<LimitChanged>> change_workload(const LimitSubjects& node, const LimitRequest& request,
                                                                const Caller& caller, Events& events);
/// Changes the limits of `workload`, and ignores the name in `request`.
[[nodiscard]] Result<std::vector<LimitChanged>> change_limits(const LimitSubjects& node, const Workload& workload,
                                                              const LimitRequest& request, const Caller& caller,
                                                              Events& events);
/// Updates `changes`, the results of a request, from the latest snapshot.
void refresh(const Snapshot& snapshot, std::vector<LimitChanged>& changes);
/// Changes the tenant named in `request.workload`. Operators only. Fails with E1801, E1502, E1503, E1304 or E1305.
[[nodiscard]] Result<std::vector<TenantChange>> change_tenant(const Moment& moment, Tenants& tenants,
                                                              const DevicePromises& promises,
                                                              const LimitRequest& request, const Caller& caller,
                                                              Events& events);

}  // namespace ration::node
