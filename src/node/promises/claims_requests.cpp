#include "node/promises/claims_requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "admission/plan.hpp"
#include "base/command.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"
#include "machine/devices.hpp"
#include "node/events/event_text.hpp"

namespace ration::node {
namespace {

Result<void> check_claim(const ContainerClaim& claim) {
  constexpr std::size_t kMaxName = 512;
  const auto wrong = [](const std::string& what) {
    return fail("E1521", what, R"({"name": "ml/four", "devices": [{"uuid": "GPU-…", "limit_bytes": 4294967296}]})", 2);
  };
  if (!ContainerClaims::is_id(claim.id))
    return wrong(fmt::format("'{}' is not an id of a claim: at most {} letters, digits and _-.", printable(claim.id),
                             ContainerClaims::kMaxId));
  if (claim.name.empty() || claim.name.size() > kMaxName || printable(claim.name) != claim.name)
    return wrong("'name' is not a printable name of a claim.");
  if (claim.devices.empty()) return wrong("a claim has at least one device.");
  std::set<std::string> uuids;
  for (const ClaimedDevice& device : claim.devices)
    if (!uuids.insert(device.uuid).second) return wrong(fmt::format("device {} is listed twice.", device.uuid));
  return {};
}

Result<Bytes> whole_granules(const machine::Device& device, Bytes size, const char* what) {
  return admission::size_on(device, fmt::format("{}B", std::min(size, kUnlimited).count()), what);
}

Result<ClaimedDevice> share_of(const ClaimSubjects& node, const DeviceView& view, const ClaimedDevice& claim) {
  const machine::Device& device = view.device;
  if (claim.guarantee > claim.limit)
    return fail("E1305",
                fmt::format("the guarantee {} is more than the limit {}.", format_size(claim.guarantee),
                            format_size(claim.limit)),
                "Ask for a smaller guarantee.", 2);
  RATION_TRY(const auto limit, whole_granules(device, claim.limit, "limit"));
  const auto context = machine::context_cost(device, node.moment.snapshot.driver_version, node.runtime_folder);
  RATION_TRY(admission::holds_context(limit, context));
  return ClaimedDevice{claim.uuid, limit, round_down(claim.guarantee, kGranule)};
}

/// Checks that the claim fits within the tenant's limit, together with the tenant's other claims. Fails with E1104.
Result<void> fits_tenant(const ClaimSubjects& node, const DeviceView& view, const std::string& tenant,
                         const ClaimedDevice& share) {
  const auto all = node.promises.shares(node.moment);
  const auto found = all.find({tenant, view.device.index});
  if (found == all.end()) return {};
  const Bytes most = found->second.limit;
  const Bytes promised = node.promises.guaranteed_to_claims_of(view.device, tenant);
  if (share.limit <= most && promised + share.guarantee <= most) return {};
  return fail(
      "E1104",
      fmt::format("a claim of {} exceeds the limit of tenant {}: the limit is {} of GPU {}, and {} of it is kept "
                  "for the tenant's other claims.",
                  format_size(share.limit), tenant, format_size(most), view.device.index, format_size(promised)),
      "Ask for less, or: " + command({"set", tenant, "--limit", "SIZE"}), 2);
}

}  // namespace

Result<ContainerClaim> grant_claim(const ClaimSubjects& node, ContainerClaim claim, Events& events) {
  RATION_TRY(check_claim(claim));
  RATION_TRY(admission::parse_on_deny(claim.on_deny));
  const bool known = node.claims.find(claim.id) != nullptr;
  std::map<int, Bytes> limits;
  for (ClaimedDevice& device : claim.devices) {
    const auto& views = node.moment.snapshot.devices;
    const auto view = std::find_if(views.begin(), views.end(),
                                   [&](const DeviceView& each) { return each.device.uuid == device.uuid; });
    if (view == views.end())
      return fail("E1407", fmt::format("there is no GPU {} on this node.", printable(device.uuid)), "ration ps", 3);
    RATION_TRY(auto share, share_of(node, *view, device));
    device = std::move(share);
    limits[view->device.index] = device.limit;
    if (known) continue;  // an existing claim already has its promises
    RATION_TRY(fits_tenant(node, *view, claim.tenant, device));
    if (auto good = node.promises.can_promise(node.moment, *view, claim.tenant, device.guarantee); !good)
      return tl::unexpected(good.error());
  }
  RATION_TRY(node.claims.put(claim));
  if (!known) events.push_back(claim_granted_event(claim.name, claim.tenant, limits));
  return claim;
}

Result<void> release_claim(ContainerClaims& claims, const std::string& id, Events& events) {
  const ContainerClaim* claim = claims.find(id);
  if (claim == nullptr) return {};
  Event event = claim_released_event(claim->name, claim->tenant);
  RATION_TRY(claims.remove(id));
  events.push_back(std::move(event));
  return {};
}

}  // namespace ration::node
