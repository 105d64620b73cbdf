// The queue's part of a tick, after the rules. Used by the daemon.
#pragma once

#include <cstdint>

#include "node/queue/leases.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

/// Tells the queue who left its device and who wants it back since the last call, and grants what fits. Returns true if
/// a suspended workload may return from now on, so that the next tick should come at once.
[[nodiscard]] bool step_queue(NodeState& state, Leases& leases, Events& events);

}  // namespace ration::node
