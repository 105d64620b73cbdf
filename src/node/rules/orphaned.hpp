// Memory in use on a device on which the driver lists no process that has it.
#pragma once

#include <map>

#include "node/decisions/settled.hpp"
#include "node/rules/rule.hpp"

namespace ration::node {

class OrphanedRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;

 private:
  struct Orphaned {
    Settled amount;
    bool told = false;
  };
  std::map<std::string, Orphaned> orphaned_;  // by device
};

}  // namespace ration::node
