// The behaviour of one release of NVIDIA's driver where releases differ: the ways in which the simulated driver departs
// from the newest one. Profiles are the TOML files in sim/drivers, built in; a card that was measured is one more file.
// The source of each fact stands beside it there.
#pragma once

#include <map>
#include <string>

#include "base/bytes.hpp"
#include "base/toml_document.hpp"

namespace ration::sim {

struct DriverProfile {
  std::string release;   ///< as NVML reports it: 580.95
  int cuda_version = 0;  ///< as cuDriverGetVersion() reports it: 13000. Newer functions do not exist
  Bytes pool_growth;     ///< the step in which a memory pool takes memory from the device
  std::map<std::string, Bytes>
      contexts;  ///< the cost of a context, by the name of the card; others have the usual cost
  /// NVML reports what each process holds. Otherwise as in a container: it lists those of the caller's own pid
  /// namespace with 0 bytes, and identifies computing processes by other numbers.
  bool process_bytes = false;
  bool reset_deactivates = false;  ///< a primary context that was reset, and is retained, is not active
  bool group_limits = false;       ///< limits of cgroups (nvmlDeviceSetMemoryLimits_v1)
  /// The memory that a checkpoint moves beside plain memory. A process with other memory is lost in the attempt.
  bool checkpoint_moves_shared = false, checkpoint_moves_managed = false;
  bool checkpoint_by_owner = false;      ///< a user other than root may move the memory of its own processes
  bool restore_can_be_repeated = false;  ///< after a restore that found no room; otherwise the process never comes back
};

/// Reads the content of a file. False: `problem` says why it cannot be used.
[[nodiscard]] bool read_toml_file(const std::string& path, TomlValue& out, std::string& problem);

/// Finds the profile named `wanted` (`535`, `560-container`), or that of the newest release that is not newer, under
/// that name (`580.95`), or reads that file if it ends in `.toml`. Empty: RATION_SIM_DRIVER, else 580. Returns false
/// with the reason in `problem`.
[[nodiscard]] bool find_driver(const std::string& wanted, DriverProfile& out, std::string& problem);

}  // namespace ration::sim
