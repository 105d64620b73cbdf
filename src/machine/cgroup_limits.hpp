// Limits that the driver itself holds over a cgroup (NVML, release 615 and newer). Used by the node daemon. Promises: a
// driver without them says so; nothing is kept here.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/units.hpp"

namespace ration::machine {

/// `device`: index as nvidia-smi counts. `cgroup`: full path of its folder (version 2). Absent limit: none from now on.
/// E1551: this driver, device or machine has no such limits. E1552: not permitted. E1553: the driver refused.
[[nodiscard]] Result<void> set_cgroup_limit(const std::string& driver_folder, int device, const std::string& cgroup,
                                            std::optional<Bytes> limit);

/// The same errors; absent: none is set.
[[nodiscard]] Result<std::optional<Bytes>> cgroup_limit(const std::string& driver_folder, int device,
                                                        const std::string& cgroup);

}  // namespace ration::machine
