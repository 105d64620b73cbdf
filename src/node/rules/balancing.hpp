// Whose limit is lowered while another's guarantee is taken up, and raised again when there is room. Before the
// snapshot.
#pragma once

#include <map>

#include "node/decisions/settled.hpp"
#include "node/rules/rule.hpp"

namespace ration::node {

class BalancingRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
  [[nodiscard]] bool is_unsettled() const override;

 private:
  std::map<std::string, Settled> others_;  // by device: what is used there and not of any book
};

}  // namespace ration::node
