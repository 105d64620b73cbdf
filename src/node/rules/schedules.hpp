// Which limits of tenants hold at this hour. Before the devices are asked.
#pragma once

#include "node/rules/rule.hpp"

namespace ration::node {

class ScheduleRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

}  // namespace ration::node
