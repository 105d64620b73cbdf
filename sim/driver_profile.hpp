// The behaviour of one release of NVIDIA's driver, where it differs from that of the newest release. Profiles are the
// TOML files in sim/drivers, compiled in; each release that was measured has one. The source of each fact stands beside
// it in the file.
#pragma once

#include <map>
#include <string>

#include "base/bytes.hpp"
#include "base/toml_document.hpp"

namespace ration::sim {

struct DriverProfile {
  std::string release;   ///< the value that NVML reports, such as 580.95
  int cuda_version = 0;  ///< the value of cuDriverGetVersion(), such as 13000; newer functions do not exist
  Bytes pool_growth;     ///< the step in which a memory pool takes memory from the device
  std::map<std::string, Bytes>
      contexts;  ///< the cost of a context by the name of the GPU, for GPUs whose cost is not the usual one
  /// True if NVML reports the bytes of each process. If false, as in a container, NVML lists the processes of the
  /// caller's own pid namespace with 0 bytes, and identifies computing processes by other numbers.
  bool process_bytes = false;
  bool reset_deactivates = false;  ///< a primary context that is retained is not active after a reset
  bool group_limits = false;       ///< NVML supports limits of cgroups (nvmlDeviceSetMemoryLimits_v1)
  /// The kinds of memory that a checkpoint moves besides plain memory. A process is lost if it has memory of a kind
  /// that is not moved.
  bool checkpoint_moves_shared = false, checkpoint_moves_managed = false;
  bool checkpoint_by_owner = false;      ///< a user other than root may move the memory of its own processes
  bool restore_can_be_repeated = false;  ///< if false, a restore that finds no room loses the process
};

/// Reads a TOML file. Returns false with the reason in `problem`.
[[nodiscard]] bool read_toml_file(const std::string& path, TomlValue& out, std::string& problem);

/// Finds the profile with the name `wanted` (`535`, `560-container`). For a release without a profile (`580.95`),
/// returns the newest profile that is not newer than the release, under the release's name. Reads the file if `wanted`
/// ends in `.toml`. An empty name means RATION_SIM_DRIVER or, if that is not set, 580. Returns false with the reason in
/// `problem`.
[[nodiscard]] bool find_driver(const std::string& wanted, DriverProfile& out, std::string& problem);

}  // namespace ration::sim
