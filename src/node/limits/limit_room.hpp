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
  std::vector<std::pair<std::string, std::uint32_t>> keys;  ///< path and account, parallel to `input`
  std::vector<Message> reasons;  ///< parallel to `input`: the policy or claim that sets the limit, as text; empty: none
};
using Balances = std::map<std::string, BalancedDevice>;  ///< by device

/// Computes the room if the limit were configured above `needed`; absent: the device was not balanced yet. `balances`
/// null: no daemon runs, so that no limit moves.
[[nodiscard]] std::optional<admission::LimitRoom> room_for(const Moment& moment, const Balances* balances,
                                                           const Workload& workload, std::uint32_t account,
                                                           Bytes needed);

}  // namespace ration::node
