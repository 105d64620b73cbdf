// Finds what a denied workload could be granted now, by the latest balance of its device.
#pragma once

#include "admission/advised_limit.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

/// Computes the room if the limit were configured above `needed`; absent: the device was not balanced yet.
[[nodiscard]] std::optional<admission::LimitRoom> room_for(const NodeState& state, const Workload& workload,
                                                           std::uint32_t account, Bytes needed);

}  // namespace ration::node
