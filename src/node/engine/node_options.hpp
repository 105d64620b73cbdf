// Options of a node. Tests bring their own devices, jobs and slices.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "node/limits/driver_limits.hpp"
#include "node/residency/checkpoint_jobs.hpp"
#include "node/tick/earlier_record.hpp"

namespace ration::node {

struct NodeOptions {
  std::string driver_folder;   ///< folder of the driver; empty for the loader's search path
  std::string state_folder;    ///< folder in which limits and other state are saved; if empty, nothing is saved
  std::string runtime_folder;  ///< folder in which device measurements are cached
  bool simulated = false;
  bool balances = true;  ///< false for a single command without a daemon: then no limit moves
  /// Returns the devices now. If this function is empty, query() asks the driver in `driver_folder`.
  std::function<Result<machine::Machine>()> query_devices;
  /// The jobs that move the memory of programs. If null, child processes of this program move it.
  std::unique_ptr<CheckpointJobs> checkpoint_jobs;
  /// Returns the folder of a process's cgroup. If this function is empty, the folder is read from /proc.
  DriverLimits::CgroupOf cgroup_of;
  /// Returns the slices of this node now.
  std::function<std::vector<admission::Slice>()> slices = [] { return std::vector<admission::Slice>{}; };
  EarlierRecord earlier;

  /// Queries the devices now.
  [[nodiscard]] Result<machine::Machine> query() const {
    return query_devices ? query_devices() : machine::query_devices(driver_folder);
  }
};

}  // namespace ration::node
