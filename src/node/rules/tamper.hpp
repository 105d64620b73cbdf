// Books whose owners wrote other limits into them are put right. Before the snapshot.
#pragma once

#include "node/rules/rule.hpp"

namespace ration::node {

class TamperRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

}  // namespace ration::node
