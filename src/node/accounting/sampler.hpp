// Makes the accounting sample: bytes of each account at the latest tick.
#pragma once

#include "history/sample.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

/// Returns the sample of the latest tick with the runs that ended since the last call, and removes those from `state`.
[[nodiscard]] history::Sample take_sample(NodeState& state);

}  // namespace ration::node
