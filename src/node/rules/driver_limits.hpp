// The same limits in the driver, for workloads with a cgroup of their own. Before the snapshot.
#pragma once

#include "node/rules/rule.hpp"
#include "node/state/driver_limits.hpp"

namespace ration::node {

class DriverLimitRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
  explicit DriverLimitRule(const NodeOptions& options);
  void forget(const std::string& path) override { driver_limits_.release(path); }

 private:
  DriverLimits driver_limits_;
};

}  // namespace ration::node
