// The accounting sample: who held how much at the latest tick. Used by the recorder.
#pragma once

#include "history/sample.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

/// Returns the sample of the latest tick, with the runs that have ended since the one before, which it takes out of
/// `state`.
[[nodiscard]] history::Sample take_sample(NodeState& state);

}  // namespace ration::node
