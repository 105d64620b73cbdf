#include "node/limits/promises.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "admission/configured_promises.hpp"
#include "admission/promises.hpp"
#include "base/command.hpp"
#include "base/say.hpp"

namespace ration::node {
namespace {

bool is_taken(const NodeState& state, const admission::Slice& slice) {
  return std::any_of(state.registry.workloads().begin(), state.registry.workloads().end(),
                     [&](const auto& each) { return each.second.book.slice == slice.name; });
}

bool has_containers(const NodeState& state, const ContainerClaim& claim) {
  return std::any_of(state.registry.workloads().begin(), state.registry.workloads().end(), [&](const auto& each) {
    const auto claims = claims_of(state, each.second.owner, each.second.book.labels, claim.devices.front().uuid);
    return std::find(claims.begin(), claims.end(), &claim) != claims.end();
  });
}

Bytes slice_on(const NodeState& state, const DeviceView& device, const std::string& name) {
  for (const admission::Slice& slice : state.slices)
    if (!name.empty() && slice.name == name && slice.uuid == device.device.uuid)
      return std::min(slice.size, device.sliced);
  return Bytes{0};
}

/// Leaves out the promises to workload `except`, and `own_slice` bytes of the slices.
admission::Promises promises_on(const NodeState& state, const DeviceView& device, const std::string& except = "",
                                Bytes own_slice = Bytes{0}) {
  admission::Promises promises{device.keep_free + device.sliced - own_slice};
  std::map<std::string, Bytes> used;  // by claim, summed over its containers
  for (const AccountView& account : state.snapshot.accounts) {
    if (account.gpu != device.device.index || account.path == except || account.suspended) continue;
    const auto claims = claims_of(state, account.owner, account.labels, device.device.uuid);
    if (claims.empty())
      promises.add_workload(account.tenant, account.guarantee, account.used);
    else
      used[claims.front()->id] += account.used;
  }
  for (const auto& [id, claim] : state.container_claims.all())
    if (const ClaimedDevice* share = claim.share_of(device.device.uuid); share != nullptr)
      promises.add_workload(claim.tenant, share->guarantee, used[id]);
  for (const auto& [tenant, guarantee] : guarantees_on(state, device.device)) promises.set_tenant(tenant, guarantee);
  return promises;
}

/// Returns the guarantees of the claims for which `counts` returns true.
admission::Promises promises_to_claims(const NodeState& state, const std::string& uuid,
                                       const std::function<bool(const ContainerClaim&)>& counts) {
  admission::Promises promises;
  for (const auto& [id, claim] : state.container_claims.all())
    if (const ClaimedDevice* share = claim.share_of(uuid); share != nullptr && counts(claim))
      promises.add_workload(claim.tenant, share->guarantee);
  return promises;
}

}  // namespace

TenantShares shares(const NodeState& state) {
  TenantShares found;
  for (const TenantStatus& tenant : state.tenants.all()) {
    for (const DeviceView& device : state.snapshot.devices) {
      TenantShare share;
      if (tenant.limit.is_set())
        share.limit = tenant.limit.on(device.device.total, device.device.room()).value_or(kUnlimited);
      if (tenant.guarantee.is_set())
        share.guarantee = tenant.guarantee.on(device.device.total, device.device.room()).value_or(Bytes{0});
      if (share.limit < kUnlimited || share.guarantee > Bytes{0}) found[{tenant.name, device.device.index}] = share;
    }
  }
  return found;
}

std::map<std::string, Bytes> guarantees_on(const NodeState& state, const machine::Device& device) {
  std::map<std::string, Bytes> guarantees;
  for (const auto& [where, share] : shares(state))
    if (where.second == device.index && share.guarantee > Bytes{0}) guarantees[where.first] = share.guarantee;
  return guarantees;
}

Bytes reserved_on(const NodeState& state, const machine::Device& device) {
  Bytes reserved = admission::kept_free(state.configuration, device);
  for (const admission::Slice& slice : state.slices)
    if (slice.uuid == device.uuid && !is_taken(state, slice)) reserved += slice.size;
  return reserved;
}

Bytes kept_for_claims(const NodeState& state, const machine::Device& device) {
  const auto waits = [&](const ContainerClaim& claim) { return !has_containers(state, claim); };
  return promises_to_claims(state, device.uuid, waits).total();
}

Bytes guaranteed_to_claims_of(const NodeState& state, const machine::Device& device, const std::string& tenant) {
  return promises_to_claims(state, device.uuid, [](const ContainerClaim&) { return true; }).to_workloads_of(tenant);
}

void note_promises(const NodeState& state, DeviceView& device) {
  const admission::Promises promises = promises_on(state, device);
  device.promised = promises.total() - device.keep_free;
  device.available = device.device.room() - std::min(device.device.room(), promises.unspent());
}

Result<void> can_promise(const NodeState& state, const DeviceView& device, const std::string& tenant, Bytes more,
                         const std::string& except, const std::string& slice) {
  return promises_on(state, device, except, slice_on(state, device, slice)).can_add(device.device, tenant, more);
}

Result<void> can_guarantee(const NodeState& state, const DeviceView& device, const std::string& tenant,
                           Bytes guarantee) {
  return promises_on(state, device).can_set(device.device, tenant, guarantee);
}

Result<void> may_promise(const NodeState& state, const DeviceView& device, const std::string& tenant, Bytes more,
                         const std::string& slice) {
  if (more <= slice_on(state, device, slice)) return {};
  const Bytes own = promises_on(state, device).to_workloads_of(tenant);
  const Bytes most = guarantees_on(state, device.device)[tenant];
  if (own + more <= most) return {};
  return fail(
      "E1502",
      most == Bytes{0}
          ? say<"guarantee.not_entitled">("asked_bytes"_is(more), "gpu"_is(device.device.index), "tenant"_is(tenant))
          : say<"guarantee.used_up">("asked_bytes"_is(more), "gpu"_is(device.device.index), "tenant"_is(tenant),
                                     "guaranteed_bytes"_is(most),
                                     "taken_bytes"_is(own == Bytes{0} ? std::nullopt : std::optional(own))),
      fmt::format(
          "Leave --guarantee or --slice out, or ask root or a member of group ration for a [[tenant]] in ration.toml "
          "with guarantee = \"{}\" and match = {{ users }} that names you",
          exact_size(own + more)),
      5);
}

}  // namespace ration::node
