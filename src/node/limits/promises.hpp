// What a running node promises on its devices, for policy/promises.hpp to add up.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "node/state/node_state.hpp"

namespace ration::node {

/// What a tenant may hold of a device at most, and what is kept for it.
struct TenantShare {
  Bytes limit = kUnlimited, guarantee{};
};
using TenantShares = std::map<std::pair<std::string, int>, TenantShare>;
/// By tenant and device, of those that the configuration gives a limit or a guarantee.
[[nodiscard]] TenantShares shares(const NodeState& state);
/// Of tenants, their own.
[[nodiscard]] std::map<std::string, Bytes> guarantees_on(const NodeState& state, const machine::Device& device);
/// What is kept free of the device, and slices in which nothing runs.
[[nodiscard]] Bytes reserved_on(const NodeState& state, const machine::Device& device);
/// What is guaranteed to claims of which no container runs yet.
[[nodiscard]] Bytes kept_for_claims(const NodeState& state, const machine::Device& device);
/// What is guaranteed to the tenant's claims.
[[nodiscard]] Bytes guaranteed_to_claims_of(const NodeState& state, const machine::Device& device,
                                            const std::string& tenant);
/// Fills in `promised` and `available` of the device.
void note_promises(const NodeState& state, DeviceView& device);
/// Whether everything that is promised on the device can be kept beside `more` for a workload of the tenant: of each
/// tenant its own guarantee, or those of its workloads where they are more. `except`: a workload that is not counted;
/// `slice`: the one that it is for, which is its own room. E1304.
[[nodiscard]] Result<void> can_promise(const NodeState& state, const DeviceView& device, const std::string& tenant,
                                       Bytes more, const std::string& except = "", const std::string& slice = "");
/// The same of a tenant's own guarantee, instead of the one it has. E1304.
[[nodiscard]] Result<void> can_guarantee(const NodeState& state, const DeviceView& device, const std::string& tenant,
                                         Bytes guarantee);
/// Whether somebody who is not an operator may keep `more` from others: within what the tenant is guaranteed, or in a
/// slice that an operator made. E1502.
[[nodiscard]] Result<void> may_promise(const NodeState& state, const DeviceView& device, const std::string& tenant,
                                       Bytes more, const std::string& slice);

}  // namespace ration::node
