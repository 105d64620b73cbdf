// What came of requests to give back what is not in use.
#pragma once

#include "node/rules/rule.hpp"

namespace ration::node {

class TrimRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
  [[nodiscard]] bool is_unsettled() const override { return waits_; }

 private:
  bool waits_ = false;  // for somebody to give back
};

}  // namespace ration::node
