// Adds up guarantees and slices on the devices of a running node, by admission/promises.hpp.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "node/state/node_state.hpp"

namespace ration::node {

/// A tenant's limit and guarantee on a device.
struct TenantShare {
  Bytes limit = kUnlimited, guarantee{};
};
using TenantShares = std::map<std::pair<std::string, int>, TenantShare>;
/// Returns those that the configuration gives, by tenant and device.
[[nodiscard]] TenantShares shares(const NodeState& state);
/// Returns the tenants' own guarantees on the device.
[[nodiscard]] std::map<std::string, Bytes> guarantees_on(const NodeState& state, const machine::Device& device);
/// Returns the bytes kept free on the device and in slices without a workload.
[[nodiscard]] Bytes reserved_on(const NodeState& state, const machine::Device& device);
/// Returns the guarantees of claims without a running container.
[[nodiscard]] Bytes kept_for_claims(const NodeState& state, const machine::Device& device);
/// Returns the guarantees of the tenant's claims.
[[nodiscard]] Bytes guaranteed_to_claims_of(const NodeState& state, const machine::Device& device,
                                            const std::string& tenant);
/// Fills in `promised` and `available` of the device.
void note_promises(const NodeState& state, DeviceView& device);
/// Returns E1304 unless every promise on the device can be kept beside `more` bytes for a workload of the tenant. A
/// tenant counts with the larger of its own guarantee and the sum of its workloads'. `except`: path of a workload to
/// leave out; `slice`: the slice that the bytes come from.
[[nodiscard]] Result<void> can_promise(const NodeState& state, const DeviceView& device, const std::string& tenant,
                                       Bytes more, const std::string& except = "", const std::string& slice = "");
/// Returns E1304 unless the tenant's own guarantee can become `guarantee`.
[[nodiscard]] Result<void> can_guarantee(const NodeState& state, const DeviceView& device, const std::string& tenant,
                                         Bytes guarantee);
/// Returns E1502 unless a user who is no operator may reserve `more` bytes: within the tenant's guarantee, or in a
/// slice.
[[nodiscard]] Result<void> may_promise(const NodeState& state, const DeviceView& device, const std::string& tenant,
                                       Bytes more, const std::string& slice);

}  // namespace ration::node
