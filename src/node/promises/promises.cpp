#include "node/promises/promises.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "admission/configured_promises.hpp"
#include "base/command.hpp"
#include "base/say.hpp"

namespace ration::node {
namespace {

bool is_taken(const Moment& moment, const admission::Slice& slice) {
  return std::any_of(moment.registry.workloads().begin(), moment.registry.workloads().end(),
                     [&](const auto& each) { return each.second.book.slice == slice.name; });
}

Bytes slice_on(const Moment& moment, const DeviceView& device, const std::string& name) {
  for (const admission::Slice& slice : moment.slices)
    if (!name.empty() && slice.name == name && slice.uuid == device.device.uuid)
      return std::min(slice.size, device.sliced);
  return Bytes{0};
}

}  // namespace

bool DevicePromises::has_containers(const Moment& moment, const ContainerClaim& claim) const {
  return std::any_of(moment.registry.workloads().begin(), moment.registry.workloads().end(), [&](const auto& each) {
    const auto claims = claims_.of_workload(each.second.owner, each.second.book.labels, claim.devices.front().uuid);
    return std::find(claims.begin(), claims.end(), &claim) != claims.end();
  });
}

admission::Promises DevicePromises::promises_on(const Moment& moment, const DeviceView& device,
                                                const std::string& except, Bytes own_slice) const {
  admission::Promises promises{device.keep_free + device.sliced - own_slice};
  std::map<std::string, Bytes> used;  // usage of each claim, summed over its containers
  for (const AccountView& account : moment.snapshot.accounts) {
    if (account.gpu != device.device.index || account.path == except || account.suspended) continue;
    const auto claims = claims_.of_workload(account.owner, account.labels, device.device.uuid);
    if (claims.empty())
      promises.add_workload(account.tenant, account.guarantee, account.used);
    else
      used[claims.front()->id] += account.used;
  }
  for (const auto& [id, claim] : claims_.all())
    if (const ClaimedDevice* share = claim.share_of(device.device.uuid); share != nullptr)
      promises.add_workload(claim.tenant, share->guarantee, used[id]);
  for (const auto& [tenant, guarantee] : guarantees_on(moment, device.device)) promises.set_tenant(tenant, guarantee);
  return promises;
}

admission::Promises DevicePromises::promises_to_claims(const std::string& uuid,
                                                       const std::function<bool(const ContainerClaim&)>& counts) const {
  admission::Promises promises;
  for (const auto& [id, claim] : claims_.all())
    if (const ClaimedDevice* share = claim.share_of(uuid); share != nullptr && counts(claim))
      promises.add_workload(claim.tenant, share->guarantee);
  return promises;
}

TenantShares DevicePromises::shares(const Moment& moment) const {
  TenantShares found;
  for (const TenantStatus& tenant : tenants_.all()) {
    for (const DeviceView& device : moment.snapshot.devices) {
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

std::map<std::string, Bytes> DevicePromises::guarantees_on(const Moment& moment, const machine::Device& device) const {
  std::map<std::string, Bytes> guarantees;
  for (const auto& [where, share] : shares(moment))
    if (where.second == device.index && share.guarantee > Bytes{0}) guarantees[where.first] = share.guarantee;
  return guarantees;
}

Bytes DevicePromises::reserved_on(const Moment& moment, const machine::Device& device) {
  Bytes reserved = admission::kept_free(moment.configuration, device);
  for (const admission::Slice& slice : moment.slices)
    if (slice.uuid == device.uuid && !is_taken(moment, slice)) reserved += slice.size;
  return reserved;
}

Bytes DevicePromises::kept_for_claims(const Moment& moment, const machine::Device& device) const {
  const auto waits = [&](const ContainerClaim& claim) { return !has_containers(moment, claim); };
  return promises_to_claims(device.uuid, waits).total();
}

Bytes DevicePromises::guaranteed_to_claims_of(const machine::Device& device, const std::string& tenant) const {
  return promises_to_claims(device.uuid, [](const ContainerClaim&) { return true; }).to_workloads_of(tenant);
}

void DevicePromises::note(const Moment& moment, DeviceView& device) const {
  const admission::Promises promises = promises_on(moment, device);
  device.promised = promises.total() - device.keep_free;
  device.kept_for = promises.unspent_by_tenant();
  device.available = device.device.room() - std::min(device.device.room(), promises.unspent());
}

TenantRoom DevicePromises::room_for(const Moment& moment, const DeviceView& device, const std::string& tenant) const {
  const admission::Promises promises = promises_on(moment, device);
  TenantRoom room;
  room.available = device.device.room() - std::min(device.device.room(), promises.kept_from(tenant));
  room.limit = shares(moment)[{tenant, device.device.index}].limit;
  if (room.limit < kUnlimited) room.left_of_limit = room.limit - std::min(room.limit, promises.taken_by(tenant));
  return room;
}

Result<void> DevicePromises::can_promise(const Moment& moment, const DeviceView& device, const std::string& tenant,
                                         Bytes more, const std::string& except, const std::string& slice) const {
  return promises_on(moment, device, except, slice_on(moment, device, slice)).can_add(device.device, tenant, more);
}

Result<void> DevicePromises::can_guarantee(const Moment& moment, const DeviceView& device, const std::string& tenant,
                                           Bytes guarantee) const {
  return promises_on(moment, device).can_set(device.device, tenant, guarantee);
}

Result<void> DevicePromises::may_promise(const Moment& moment, const DeviceView& device, const std::string& tenant,
                                         Bytes more, const std::string& slice) const {
  if (more <= slice_on(moment, device, slice)) return {};
  const Bytes own = promises_on(moment, device).to_workloads_of(tenant);
  const Bytes most = guarantees_on(moment, device.device)[tenant];
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
          "with guarantee = \"{}\" and your name in match.users",
          exact_size(own + more)),
      5);
}

}  // namespace ration::node
