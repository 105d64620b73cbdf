// The snapshot of one tick: the books against the driver, what may be promised, and how long until something is full.
#pragma once

#include "node/state/node_state.hpp"
#include "node/watch/forecast.hpp"

namespace ration::node {

class SnapshotBuilder {
 public:
  /// Replaces `state.snapshot`. Guarantees that cannot be kept are taken back, and told.
  void build(NodeState& state, Events& events);

 private:
  Forecast forecast_;
};

}  // namespace ration::node
