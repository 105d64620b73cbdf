// Which workloads began and ended since the last tick, and which books cannot be read. Before the snapshot.
#pragma once

#include "node/rules/rule.hpp"

namespace ration::node {

class LifecycleRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

}  // namespace ration::node
