// Finds what a denied workload could be granted now, by the latest balance of its device.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "admission/advised_limit.hpp"
#include "node/limits/balance.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

/// The latest balance of one device.
struct BalancedDevice {
  BalanceInput input;
  /// For each account of `input`, the path of its book and its index there.
  std::vector<std::pair<std::string, std::uint32_t>> keys;
  /// For each account of `input`, the policy or claim that sets its limit, as text; empty if none does.
  std::vector<Message> reasons;
};
using Balances = std::map<std::string, BalancedDevice>;  ///< by device

/// Computes the room that the workload would have if its limit were configured above `needed`. Returns nothing if the
/// device was not balanced yet. `balances` is null if no daemon runs, so that no limit moves.
[[nodiscard]] std::optional<admission::LimitRoom> room_for(const Moment& moment, const Balances* balances,
                                                           const Workload& workload, std::uint32_t account,
                                                           Bytes needed);

}  // namespace ration::node
