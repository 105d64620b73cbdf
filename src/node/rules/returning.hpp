// Who asked for its place again and has room for it comes back onto its device.
#pragma once

#include "node/rules/rule.hpp"

namespace ration::node {

class ReturnRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

}  // namespace ration::node
