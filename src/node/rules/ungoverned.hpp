// Processes with memory on a device that are in no book.
#pragma once

#include <map>

#include "node/rules/rule.hpp"

namespace ration::node {

class UngovernedRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
  [[nodiscard]] bool is_unsettled() const override;

 private:
  std::map<std::pair<int, std::int32_t>, bool> known_;  // by GPU and pid: whether it was told
};

}  // namespace ration::node
