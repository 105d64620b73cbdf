// Whose memory has left its device or come back, and who asks for it. Before the snapshot, after the books were
// compared: it writes some.
#pragma once

#include "node/rules/rule.hpp"

namespace ration::node {

class SuspensionRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

}  // namespace ration::node
