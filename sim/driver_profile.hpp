// How one release of NVIDIA's driver behaves, where releases differ: what the simulated driver does otherwise than the
// newest one. Profiles are the TOML files in sim/drivers, built in; a card that was measured is one more file. The
// source of each fact stands beside it there.
#pragma once

#include <map>
#include <string>

#include "base/bytes.hpp"
#include "base/toml_document.hpp"

namespace ration::sim {

struct DriverProfile {
  std::string release;   ///< as NVML tells it: 580.95
  int cuda_version = 0;  ///< as cuDriverGetVersion() tells it: 13000. Functions that are newer do not exist
  Bytes pool_growth;     ///< what a memory pool takes from the device at a time
  std::map<std::string, Bytes> contexts;  ///< what a context costs, by the name of the card; of others as ever
  /// NVML tells what each process holds. Else as in a container: it lists those of the caller's own pid namespace, with
  /// 0 bytes, and says who computes by other numbers.
  bool process_bytes = false;
  bool reset_deactivates = false;  ///< a primary context that was reset, and is retained, is not active
  bool group_limits = false;       ///< limits of cgroups (nvmlDeviceSetMemoryLimits_v1)
  /// What a checkpoint moves of a process beside its plain memory. A process that has what is not moved is lost at it.
  bool checkpoint_moves_shared = false, checkpoint_moves_managed = false;
  bool checkpoint_by_owner = false;      ///< who is not root may move the memory of processes of its own
  bool restore_can_be_repeated = false;  ///< after one that found no room; else the process never comes back
};

/// What a file says. False: `problem` says why it cannot be used.
[[nodiscard]] bool read_toml_file(const std::string& path, TomlValue& out, std::string& problem);

/// The profile named `wanted` (`535`, `560-container`); or of the newest release that is not newer than it, under that
/// name (`580.95`); or read from that file, if it ends in `.toml`. Empty: what RATION_SIM_DRIVER
/// says, else 580. False: `problem` says why.
[[nodiscard]] bool find_driver(const std::string& wanted, DriverProfile& out, std::string& problem);

}  // namespace ration::sim
