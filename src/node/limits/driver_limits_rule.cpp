// Applies the limits in force in the driver as well, for workloads that have a cgroup of their own. Runs before the
// snapshot.
#include <algorithm>
#include <map>

#include "node/limits/limits_rules.hpp"

namespace ration::node {

namespace {

class DriverLimitRule final : public Rule {
 public:
  DriverLimitRule(const Limits& limits, DriverLimits& driver_limits) : limits_(limits), driver_limits_(driver_limits) {}
  void run(const Moment& moment, Effects& effects) override;
  void forget(const std::string& path) override { driver_limits_.release(path); }

 private:
  const Limits& limits_;
  DriverLimits& driver_limits_;
};

void DriverLimitRule::run(const Moment& moment, Effects& effects) {
  if (!moment.machine) return;
  for (const auto& [path, workload] : moment.registry.workloads()) {
    const OwnedWorkload* owned = limits_.find(path);
    if (owned == nullptr) continue;
    std::map<int, Bytes> limits;
    for (std::size_t i = 0; i < std::min(owned->accounts.size(), workload.book.accounts.size()); ++i) {
      const auto gpu = gpu_of(moment, workload.book.accounts[i].device);
      if (gpu && owned->accounts[i].in_force < kUnlimited) limits[*gpu] = owned->accounts[i].in_force;
    }
    driver_limits_.apply(
        path, [&workload = workload] { return creator_of(workload); }, limits);
  }
  for (const auto& problem : driver_limits_.take_problems()) effects.events.push_back(driver_limits_event(problem));
}

}  // namespace

std::unique_ptr<Rule> driver_limit_rule(const Limits& limits, DriverLimits& driver_limits) {
  return std::make_unique<DriverLimitRule>(limits, driver_limits);
}

}  // namespace ration::node
