// Rows of bytes that add up to the driver's number: for a workload, a tenant, a device. Used by the HTTP interface and
// `ration explain`. Promise: a kind of bytes that nobody can tell has a row of its own with the reason, and no number.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "node/snapshot/snapshot_json.hpp"

namespace ration::node {

/// What processes hold on one device, as the books and the driver say.
struct Holding {
  Bytes held, context, pooled, managed;  ///< by the books; the others are part of the first
  Bytes unrequested;                     ///< beside these, of an account: see AccountView
  std::optional<Bytes> driver;           ///< absent: it does not attribute memory to them
  bool contexts_counted = true;          ///< false: the books enter allocations only
  const char* untold = "the driver does not attribute memory to these processes";  ///< why `driver` is absent
};
/// By kind. The rows with a number add up to what the driver says.
[[nodiscard]] nlohmann::json rows_of(const Holding& holding);

/// What an account holds beyond its limit, and of what it consists.
struct Overrun {
  Bytes over, limit, pooled, context, live;
  Bytes movable;  ///< of `live`: see AccountView
};
/// Absent: it is within its limit.
[[nodiscard]] std::optional<Overrun> overrun_of(const AccountView& account);
/// What that means for whoever allocates, and what of it could come back; a sentence each.
[[nodiscard]] std::vector<std::string> sentences(const Overrun& overrun,
                                                 const std::function<std::string(Bytes)>& size_text);
/// The account that is over its limit.
struct OverLimitAccount {
  std::string workload;
  std::optional<int> gpu;    ///< absent: the device is not on this machine
  std::string held_back_by;  ///< who lowered the limit, so that raising it is no way out; empty: nobody
};
/// What to type.
[[nodiscard]] std::string suggested_fix(const Overrun& overrun, const OverLimitAccount& who);
[[nodiscard]] nlohmann::json overrun_json(const Overrun& overrun, const OverLimitAccount& who);

/// `carol, docker:4f2a91c03b77, login session 3`: whatever is known of where a process came from.
[[nodiscard]] std::string whereabouts(const std::string& user, const std::string& container, const std::string& origin);

/// Of one account: what its processes hold by kind, together and each, and what only the driver knows of.
[[nodiscard]] nlohmann::json explain_account(const AccountView& account);
/// Of the workload that is meant (Registry::named), an account for each of its devices. E1801 E1802; E1502: it is
/// somebody else's.
[[nodiscard]] Result<nlohmann::json> explain_workload(const Registry& registry, const Snapshot& snapshot,
                                                      const std::string& name, const Viewer& viewer);
/// Of one process: its part of its workload, or who it is where no limit holds for it. E1801: it holds nothing here.
/// E1502.
[[nodiscard]] Result<nlohmann::json> explain_process(const Snapshot& snapshot, const std::string& pid,
                                                     const Viewer& viewer);
/// Of a tenant, on each device: the same over all of its workloads, and which they are. No devices: nobody of it runs.
[[nodiscard]] nlohmann::json explain_tenant(const Snapshot& snapshot, const std::string& tenant);
/// Of a device: every workload, every ungoverned process, the rest, what is free. The rows add up to its size.
[[nodiscard]] nlohmann::json explain_device(const Snapshot& snapshot, const DeviceView& device, const Viewer& viewer);

}  // namespace ration::node
