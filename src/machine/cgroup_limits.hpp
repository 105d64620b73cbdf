// Limits that the driver itself enforces on a cgroup (NVML, release 615 and newer). Used by the node daemon. Promises:
// a driver without them is reported as an error; nothing is stored here.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/units.hpp"

namespace ration::machine {

/// Sets or removes (absent) a limit. `device` is the index that nvidia-smi uses, `cgroup` the full path of its folder
/// (version 2). E1551: this driver, device or machine has no such limits. E1552: not permitted. E1553: the driver
/// rejected it.
[[nodiscard]] Result<void> set_cgroup_limit(const std::string& driver_folder, int device, const std::string& cgroup,
                                            std::optional<Bytes> limit);

/// Returns the limit, with the same errors; absent: none is set.
[[nodiscard]] Result<std::optional<Bytes>> cgroup_limit(const std::string& driver_folder, int device,
                                                        const std::string& cgroup);

}  // namespace ration::machine
