// Builds the snapshot of one tick: books against driver, what may be promised, and the forecasts.
#pragma once

#include "node/state/node_state.hpp"
#include "node/watch/forecast.hpp"

namespace ration::node {

class SnapshotBuilder {
 public:
  /// Replaces `state.snapshot`. Withdraws guarantees that cannot be kept, and reports each as an event.
  void build(NodeState& state, Events& events);

 private:
  Forecast forecast_;
};

}  // namespace ration::node
