// Rows of bytes that add up to the driver's number: for a workload, a tenant, a device. Used by the HTTP interface and
// `ration explain`.
#pragma once

#include <nlohmann/json.hpp>

#include "node/snapshot_json.hpp"

namespace ration::node {

/// Of one account: what its processes hold by kind, and what only the driver knows of.
[[nodiscard]] nlohmann::json explain_account(const AccountView& account);
/// Of a tenant, on each device: the same over all of its workloads, and which they are. No devices: nobody of it runs.
[[nodiscard]] nlohmann::json explain_tenant(const Snapshot& snapshot, const std::string& tenant);
/// Of a device: every workload, every ungoverned process, the rest, what is free. The rows add up to its size.
[[nodiscard]] nlohmann::json explain_device(const Snapshot& snapshot, const DeviceView& device, const Viewer& viewer);

}  // namespace ration::node
