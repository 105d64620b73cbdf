// Enforces limits a second time: the driver itself limits the workload's own cgroup, if the driver supports such
// limits. A tenant cannot undo a limit of the driver.
// Promises: no other cgroup is ever limited; a limit ends with its workload.
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

/// Returns the processes in the cgroup and below it; nothing if the folder is no cgroup.
[[nodiscard]] std::optional<std::vector<std::int32_t>> processes_in(const std::string& cgroup);

class DriverLimits {
 public:
  /// Returns the folder of a process's cgroup; empty for the root cgroup or an unknown one.
  using CgroupOf = std::function<std::string(std::int32_t pid)>;
  DriverLimits(std::string driver_folder, CgroupOf cgroup_of)
      : driver_folder_(std::move(driver_folder)), cgroup_of_(std::move(cgroup_of)) {}

  /// Returns the pid that started the workload; nothing if /proc contradicts the workload's book.
  using CreatorOf = std::function<std::optional<std::int32_t>()>;
  /// Applies the workload's limits, by device. Returns true if the driver now enforces them. Calls `creator_of` only
  /// once for each workload, because `creator_of` reads /proc several times.
  bool apply(const std::string& workload, const CreatorOf& creator_of, const std::map<int, Bytes>& limits);
  void release(const std::string& workload);
  /// Returns true while the driver enforces limits of that workload.
  [[nodiscard]] bool is_applied(const std::string& workload) const;
  /// Returns why limits could not be applied, each reason once.
  [[nodiscard]] std::vector<std::string> take_problems();

 private:
  struct Applied {
    std::string cgroup;  // empty if the workload has no cgroup of its own
    std::map<int, Bytes> limits;
  };
  std::string driver_folder_;
  CgroupOf cgroup_of_;
  std::unordered_map<std::string, Applied> applied_;
  bool unsupported_ = false;  // true if this driver supports no such limits
  std::set<std::string> reported_;
  std::vector<std::string> problems_;
};

}  // namespace ration::node
