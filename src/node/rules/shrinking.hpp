// Workloads that hold more than their limit, since that was lowered.
#pragma once

#include <map>

#include "node/rules/rule.hpp"

namespace ration::node {

class ShrinkingRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
  void forget(const std::string& path) override;

 private:
  struct Shrinking {
    Bytes limit;  // under which it was told that it holds more
    bool over = false;
  };
  std::map<std::pair<std::string, std::uint32_t>, Shrinking> shrinking_;  // by path and account
};

}  // namespace ration::node
