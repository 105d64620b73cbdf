// Limits that the driver itself enforces on a cgroup (NVML, release 615 and newer). Used by the node daemon. Promises:
// a driver without such limits is reported as an error; nothing is stored here.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/units.hpp"

namespace ration::machine {

/// Sets the limit of a cgroup on a device, or removes it if `limit` is absent. `device` is the index that nvidia-smi
/// uses, `cgroup` the full path of its folder (version 2). Fails with E1551 if this driver, device or machine has no
/// such limits, E1552 if this user may not set one, E1553 if the driver rejected it.
[[nodiscard]] Result<void> set_cgroup_limit(const std::string& driver_folder, int device, const std::string& cgroup,
                                            std::optional<Bytes> limit);

/// Returns the limit; absent if none is set. Fails as set_cgroup_limit() does.
[[nodiscard]] Result<std::optional<Bytes>> cgroup_limit(const std::string& driver_folder, int device,
                                                        const std::string& cgroup);

}  // namespace ration::machine
