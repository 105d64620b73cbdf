// Rows of bytes that add up to the driver's number, for a process, a workload, a tenant or a device.
// Promise: an unknown kind of bytes has a row with the reason and without a number.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "node/snapshot/snapshot_json.hpp"

namespace ration::node {

extern const FixedMessage kNoneAttributed;

/// Bytes that processes hold on one device, by the books and by the driver.
struct Holding {
  Bytes held, context, pooled, managed;           ///< by the books; `held` includes the other three
  Bytes unrequested;                              ///< beside `held`; see AccountView
  std::optional<Bytes> driver;                    ///< absent: the driver does not attribute memory to these processes
  bool contexts_counted = true;                   ///< false: the books count allocations only, not contexts
  FixedMessage unknown_reason = kNoneAttributed;  ///< why `driver` is absent
};
/// Splits the bytes by kind. The rows with a number add up to the driver's number.
[[nodiscard]] nlohmann::json rows_of(const Holding& holding);

/// The bytes that an account holds beyond its limit, and their kinds.
struct Overrun {
  Bytes over, limit, pooled, context, live;
  Bytes movable;  ///< part of `live`; see AccountView
};
/// Returns nothing if the account is within its limit.
[[nodiscard]] std::optional<Overrun> overrun_of(const AccountView& account);
/// Returns one sentence on what the overrun means for the next allocation, and others on what could be freed.
[[nodiscard]] std::vector<std::string> sentences(const Overrun& overrun,
                                                 const std::function<std::string(Bytes)>& size_text);
/// The account that is over its limit.
struct OverLimitAccount {
  std::string workload;
  std::optional<int> gpu;  ///< absent: the device is not on this machine
  Message
      held_back_by;  ///< reason for which ration holds the limit down, so that raising it would not help; empty: none
};
/// Returns the command to type.
[[nodiscard]] std::string suggested_fix(const Overrun& overrun, const OverLimitAccount& who);
[[nodiscard]] nlohmann::json overrun_json(const Overrun& overrun, const OverLimitAccount& who);

/// Joins what is known of a process's origin: `carol, docker:4f2a91c03b77, login session 3`.
[[nodiscard]] std::string whereabouts(const std::string& user, const std::string& container, const std::string& origin);

/// Explains one account: bytes by kind, for all processes and for each, and what only the driver sees.
[[nodiscard]] nlohmann::json explain_account(const AccountView& account);
/// Explains each account of the named workload (Registry::named). E1801, E1802; E1502: it belongs to another user.
[[nodiscard]] Result<nlohmann::json> explain_workload(const Registry& registry, const Snapshot& snapshot,
                                                      const std::string& name, const Viewer& viewer);
/// Explains one process: its part of its workload, or its origin if it is ungoverned. E1801: it holds nothing here.
/// E1502.
[[nodiscard]] Result<nlohmann::json> explain_process(const Snapshot& snapshot, const std::string& pid,
                                                     const Viewer& viewer);
/// Explains a tenant on each device: its bytes by kind over all workloads, and the list of them. Empty without
/// workloads.
[[nodiscard]] nlohmann::json explain_tenant(const Snapshot& snapshot, const std::string& tenant);
/// Explains a device: workloads, ungoverned processes, the rest, and free memory. The rows add up to its size.
[[nodiscard]] nlohmann::json explain_device(const Snapshot& snapshot, const DeviceView& device, const Viewer& viewer);

}  // namespace ration::node
