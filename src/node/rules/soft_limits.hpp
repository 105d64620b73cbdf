// Tenants that hold more than the share of their limit at which they are warned.
#pragma once

#include <set>

#include "node/rules/rule.hpp"

namespace ration::node {

class SoftLimitRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;

 private:
  std::set<std::pair<std::string, int>> over_;  // tenants over it, and where
};

}  // namespace ration::node
