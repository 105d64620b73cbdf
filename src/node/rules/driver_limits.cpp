#include "node/rules/driver_limits.hpp"

#include <algorithm>

#include "node/state/config_subject.hpp"

namespace ration::node {

void DriverLimitRule::run(NodeState& state, Events& events) {
  if (!state.machine) return;
  for (const auto& [path, workload] : state.registry.workloads()) {
    const OwnedWorkload* owned = state.limits.find(path);
    if (owned == nullptr) continue;
    std::map<int, Bytes> limits;
    for (std::size_t i = 0; i < std::min(owned->accounts.size(), workload.book.accounts.size()); ++i) {
      const auto gpu = gpu_of(state, workload.book.accounts[i].device);
      if (gpu && owned->accounts[i].effective < kUnlimited) limits[*gpu] = owned->accounts[i].effective;
    }
    driver_limits_.hold(
        path, [&workload = workload] { return creator_of(workload); }, limits);
    state.running[path].held_by_driver = driver_limits_.holds(path);
  }
  for (const std::string& problem : driver_limits_.take_problems()) events.push_back(driver_limits_event(problem));
}

DriverLimitRule::DriverLimitRule(const NodeOptions& options)
    : driver_limits_(options.driver_folder, options.cgroup_of ? options.cgroup_of : cgroup_folder_of) {}

}  // namespace ration::node
