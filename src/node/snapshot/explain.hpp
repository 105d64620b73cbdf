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

/// Bytes that processes hold on one device, according to the books and to the driver.
struct Holding {
  Bytes held, context, pooled, managed;  ///< bytes according to the books; `held` includes the other three
  Bytes unrequested;                     ///< bytes besides `held`; see AccountView
  std::optional<Bytes> driver;   ///< bytes that the driver reports; absent if it reports none for these processes
  bool contexts_counted = true;  ///< false if the books count allocations only, not contexts
  FixedMessage unknown_reason = kNoneAttributed;  ///< why `driver` is absent
};
/// Splits the bytes by kind. The rows with a number add up to the driver's number.
[[nodiscard]] nlohmann::json rows_of(const Holding& holding);

/// The bytes that an account holds beyond its limit, and their kinds.
struct Overrun {
  Bytes over, limit, pooled, context, live;
  Bytes movable;  ///< part of `live`; see AccountView
};
/// Returns the overrun; nothing if the account is within its limit.
[[nodiscard]] std::optional<Overrun> overrun_of(const AccountView& account);
/// Returns a sentence on what the overrun means for the next allocation, and further ones on what could be freed.
[[nodiscard]] std::vector<std::string> sentences(const Overrun& overrun,
                                                 const std::function<std::string(Bytes)>& size_text);
/// The account that is over its limit.
struct OverLimitAccount {
  std::string workload;
  std::optional<int> gpu;  ///< absent if the device is not on this machine
  /// The reason why ration holds the limit down, so that a higher configured limit would not help; empty if ration does
  /// not hold it down.
  Message held_back_by;
};
/// Returns the command that would end the overrun.
[[nodiscard]] std::string suggested_fix(const Overrun& overrun, const OverLimitAccount& who);
[[nodiscard]] nlohmann::json overrun_json(const Overrun& overrun, const OverLimitAccount& who);

/// Joins what is known of a process's origin: `carol, docker:4f2a91c03b77, login session 3`.
[[nodiscard]] std::string whereabouts(const std::string& user, const std::string& container, const std::string& origin);

/// Explains one account: bytes by kind, for all processes and for each, and what only the driver sees.
[[nodiscard]] nlohmann::json explain_account(const AccountView& account);
/// Explains each account of the workload that Registry::named() finds. Fails with E1801, E1802, or E1502 if the
/// workload belongs to another user.
[[nodiscard]] Result<nlohmann::json> explain_workload(const Registry& registry, const Snapshot& snapshot,
                                                      const std::string& name, const Viewer& viewer);
/// Explains one process: its part of its workload, or its origin if it is ungoverned. Fails with E1801 if it holds
/// nothing here, with E1502 if it belongs to another user.
[[nodiscard]] Result<nlohmann::json> explain_process(const Snapshot& snapshot, const std::string& pid,
                                                     const Viewer& viewer);
/// Explains a tenant on each device where it has workloads: its bytes by kind over all its workloads, and the list of
/// these workloads.
[[nodiscard]] nlohmann::json explain_tenant(const Snapshot& snapshot, const std::string& tenant);
/// Explains a device in rows that add up to its size: workloads, ungoverned processes, the rest, and free memory.
[[nodiscard]] nlohmann::json explain_device(const Snapshot& snapshot, const DeviceView& device, const Viewer& viewer);

}  // namespace ration::node
