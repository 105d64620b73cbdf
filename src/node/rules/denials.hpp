// What was denied since the last tick, and what each workload took and gave back. Before the snapshot: who was denied
// is explained by the one before, which it met.
#pragma once

#include "node/rules/rule.hpp"

namespace ration::node {

class DenialRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

}  // namespace ration::node
