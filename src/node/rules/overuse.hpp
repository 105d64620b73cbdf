// Processes that use more than their book was charged. The one rule that amends the snapshot: what they use beside
// their book is theirs.
#pragma once

#include <map>

#include "node/rules/rule.hpp"

namespace ration::node {

class OveruseRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
  [[nodiscard]] bool is_unsettled() const override { return !violators_.empty(); }

 private:
  std::map<std::pair<int, std::int32_t>, int> violators_;  // by GPU and pid: in how many ticks in a row
};

}  // namespace ration::node
