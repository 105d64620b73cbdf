// Applies the limits in force in the driver too, for workloads with their own cgroup. Runs before the snapshot.
#include <algorithm>
#include <memory>

#include "node/limits/driver_limits.hpp"
#include "node/rules.hpp"
#include "node/snapshot/config_subject.hpp"

namespace ration::node {

namespace {

class DriverLimitRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
  explicit DriverLimitRule(const NodeOptions& options);
  void forget(const std::string& path) override { driver_limits_.release(path); }

 private:
  DriverLimits driver_limits_;
};

void DriverLimitRule::run(NodeState& state, Events& events) {
  if (!state.machine) return;
  for (const auto& [path, workload] : state.registry.workloads()) {
    const OwnedWorkload* owned = state.limits.find(path);
    if (owned == nullptr) continue;
    std::map<int, Bytes> limits;
    for (std::size_t i = 0; i < std::min(owned->accounts.size(), workload.book.accounts.size()); ++i) {
      const auto gpu = gpu_of(state, workload.book.accounts[i].device);
      if (gpu && owned->accounts[i].in_force < kUnlimited) limits[*gpu] = owned->accounts[i].in_force;
    }
    driver_limits_.apply(
        path, [&workload = workload] { return creator_of(workload); }, limits);
    state.running[path].driver_enforced = driver_limits_.is_applied(path);
  }
  for (const std::string& problem : driver_limits_.take_problems()) events.push_back(driver_limits_event(problem));
}

DriverLimitRule::DriverLimitRule(const NodeOptions& options)
    : driver_limits_(options.driver_folder, options.cgroup_of ? options.cgroup_of : cgroup_folder_of) {}

}  // namespace

std::unique_ptr<Rule> driver_limit_rule(const NodeOptions& options) {
  return std::make_unique<DriverLimitRule>(options);
}

}  // namespace ration::node
