#include "node/limits/driver_limits.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "machine/cgroup_limits.hpp"
#include "machine/process_origin.hpp"

namespace ration::node {
namespace fs = std::filesystem;

std::optional<std::vector<std::int32_t>> processes_in(const std::string& cgroup) {
  std::ifstream own(cgroup + "/cgroup.procs");
  if (!own) return std::nullopt;
  std::vector<std::int32_t> processes;
  for (std::int32_t pid = 0; own >> pid;) processes.push_back(pid);
  std::error_code error;
  for (fs::directory_iterator each(cgroup, error), end; !error && each != end; each.increment(error)) {
    if (!each->is_directory(error) || each->is_symlink(error)) continue;
    if (const auto below = processes_in(each->path())) processes.insert(processes.end(), below->begin(), below->end());
  }
  return processes;
}

bool DriverLimits::apply(const std::string& workload, const CreatorOf& creator_of, const std::map<int, Bytes>& limits) {
  if (unsupported_) return false;
  if (applied_.count(workload) == 0) {
    Applied applied;
    const auto creator = creator_of();
    if (creator) applied.cgroup = cgroup_of_(*creator);
    const auto processes = applied.cgroup.empty() ? std::nullopt : processes_in(applied.cgroup);
    const bool own = processes && !processes->empty() &&
                     std::all_of(processes->begin(), processes->end(),
                                 [&](std::int32_t pid) { return machine::descends_from(pid, *creator); });
    if (!own) applied.cgroup.clear();
    applied_[workload] = std::move(applied);
  }
  Applied& applied = applied_[workload];
  if (applied.cgroup.empty()) return false;
  for (const auto& [device, limit] : limits) {
    const auto before = applied.limits.find(device);
    if (before != applied.limits.end() && before->second == limit) continue;
    if (const auto set = machine::set_cgroup_limit(driver_folder_, device, applied.cgroup, limit); !set) {
      unsupported_ = set.error().id == "E1551";
      if (!unsupported_ && reported_.insert(set.error().what).second) problems_.push_back(set.error().what);
      return false;
    }
    applied.limits[device] = limit;
  }
  return !applied.limits.empty();
}

void DriverLimits::release(const std::string& workload) {
  const auto known = applied_.find(workload);
  if (known == applied_.end()) return;
  for (const auto& [device, limit] : known->second.limits)
    (void)machine::set_cgroup_limit(driver_folder_, device, known->second.cgroup, std::nullopt);
  applied_.erase(known);
}

bool DriverLimits::is_applied(const std::string& workload) const {
  const auto known = applied_.find(workload);
  return known != applied_.end() && !known->second.limits.empty();
}

std::vector<std::string> DriverLimits::take_problems() { return std::exchange(problems_, {}); }

}  // namespace ration::node
