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
  std::string driver_folder;   ///< empty: the loader's search path
  std::string state_folder;    ///< where limits and other state are saved; empty: nowhere
  std::string runtime_folder;  ///< where device measurements are cached
  bool simulated = false;
  bool balances = true;  ///< false: one command without a daemon, so that no limit moves
  /// Returns the devices now; empty: queries the driver in `driver_folder`.
  std::function<Result<machine::Machine>()> query_devices;
  /// Moves the memory of programs; null: in child processes of this program.
  std::unique_ptr<CheckpointJobs> checkpoint_jobs;
  /// Returns the folder of a process's cgroup; empty: reads /proc.
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
