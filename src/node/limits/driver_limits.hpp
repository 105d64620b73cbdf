// The second way in which a limit holds: by the driver itself, over the workload's cgroup, where there is such a driver
// and the cgroup is the workload's own. A tenant cannot undo that one. Used by Node. Promises: nobody else's cgroup is
// ever limited; a limit that was set is taken away with its workload.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace ration::node {

/// Every process that is in the cgroup's folder or below it. Absent: it is not a cgroup.
[[nodiscard]] std::optional<std::vector<std::int32_t>> processes_in(const std::string& cgroup);

class DriverLimits {
 public:
  /// The folder of a process's cgroup; empty: not known, or the root.
  using CgroupOf = std::function<std::string(std::int32_t pid)>;
  DriverLimits(std::string driver_folder, CgroupOf cgroup_of)
      : driver_folder_(std::move(driver_folder)), cgroup_of_(std::move(cgroup_of)) {}

  /// Who started a workload; absent: what its book says of it is not so.
  using CreatorOf = std::function<std::optional<std::int32_t>()>;
  /// What holds for the workload, by device. True: the driver holds it now, too. `creator_of` is asked once for each
  /// workload: that takes several looks into /proc.
  bool hold(const std::string& workload, const CreatorOf& creator_of, const std::map<int, Bytes>& limits);
  void release(const std::string& workload);
  /// Whether the driver holds the limits of that workload.
  [[nodiscard]] bool holds(const std::string& workload) const;
  /// Why the driver holds none, told once each.
  [[nodiscard]] std::vector<std::string> take_problems();

 private:
  struct Held {
    std::string cgroup;  // empty: it has none of its own
    std::map<int, Bytes> limits;
  };
  std::string driver_folder_;
  CgroupOf cgroup_of_;
  std::unordered_map<std::string, Held> held_;
  bool impossible_ = false;  // this driver has no such limits
  std::set<std::string> told_;
  std::vector<std::string> problems_;
};

}  // namespace ration::node
