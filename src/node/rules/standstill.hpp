// Programs that hold memory of a device and wait for each other's: one of them is suspended, and asks at once to
// return.
#pragma once

#include "node/decisions/standstill.hpp"
#include "node/rules/rule.hpp"

namespace ration::node {

class StandstillRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;

 private:
  StandstillWatch standstills_;
};

}  // namespace ration::node
