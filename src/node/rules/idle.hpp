// What is done about workloads that do nothing: told, trimmed, or suspended until they work again.
#pragma once

#include "node/decisions/idle.hpp"
#include "node/rules/rule.hpp"

namespace ration::node {

class IdleRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
  void forget(const std::string& path) override { idle_.forget(path); }

 private:
  IdleWatch idle_;
};

}  // namespace ration::node
