#include "node/claims/claims_requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "admission/plan.hpp"
#include "base/command.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"
#include "machine/devices.hpp"
#include "node/events/event_text.hpp"
#include "node/limits/promises.hpp"

namespace ration::node {
namespace {

Result<void> check_claim(const ContainerClaim& wish) {
  constexpr std::size_t kMaxName = 512;
  const auto wrong = [](const std::string& what) {
    return fail("E1521", what, R"({"name": "ml/four", "devices": [{"uuid": "GPU-…", "limit_bytes": 4294967296}]})", 2);
  };
  if (!ContainerClaims::is_id(wish.id))
    return wrong(fmt::format("'{}' is not an id of a claim: at most {} letters, digits and _-.", printable(wish.id),
                             ContainerClaims::kMaxId));
  if (wish.name.empty() || wish.name.size() > kMaxName || printable(wish.name) != wish.name)
    return wrong("'name' is not a printable name of a claim.");
  if (wish.devices.empty()) return wrong("a claim has at least one device.");
  std::set<std::string> uuids;
  for (const ClaimedDevice& device : wish.devices)
    if (!uuids.insert(device.uuid).second) return wrong(fmt::format("device {} is there twice.", device.uuid));
  return {};
}

Result<Bytes> whole_granules(const machine::Device& device, Bytes size, const char* what) {
  return admission::size_on(device, fmt::format("{}B", std::min(size, kUnlimited).count()), what);
}

Result<ClaimedDevice> share_of(const NodeState& state, const DeviceView& view, const ClaimedDevice& wish) {
  const machine::Device& device = view.device;
  if (wish.guarantee > wish.limit)
    return fail("E1305",
                fmt::format("the guarantee {} is more than the limit {}.", format_size(wish.guarantee),
                            format_size(wish.limit)),
                "a smaller guarantee", 2);
  RATION_TRY(const auto limit, whole_granules(device, wish.limit, "limit"));
  const auto context = machine::context_cost(device, state.snapshot.driver_version, state.options.runtime_folder);
  RATION_TRY(admission::holds_context(limit, context));
  return ClaimedDevice{wish.uuid, limit, round_down(wish.guarantee, kGranule)};
}

/// Whether the tenant may hold that, and be promised it beside its other claims. E1104.
Result<void> fits_tenant(const NodeState& state, const DeviceView& view, const std::string& tenant,
                         const ClaimedDevice& share) {
  const auto all = shares(state);
  const auto found = all.find({tenant, view.device.index});
  if (found == all.end()) return {};
  const Bytes most = found->second.limit;
  const Bytes promised = guaranteed_to_claims_of(state, view.device, tenant);
  if (share.limit <= most && promised + share.guarantee <= most) return {};
  return fail(
      "E1104",
      fmt::format("a claim of {} is more than tenant {} may hold: it has {} of GPU {}, and {} of that is kept "
                  "for its other claims.",
                  format_size(share.limit), tenant, format_size(most), view.device.index, format_size(promised)),
      "Ask for less, or: " + command({"set", tenant, "--limit", "SIZE"}), 2);
}

}  // namespace

Result<ContainerClaim> grant_claim(NodeState& state, ContainerClaim wish, Events& events) {
  RATION_TRY(check_claim(wish));
  RATION_TRY(admission::parse_on_deny(wish.on_deny));
  const bool known = state.container_claims.find(wish.id) != nullptr;
  std::map<int, Bytes> limits;
  for (ClaimedDevice& device : wish.devices) {
    const auto& views = state.snapshot.devices;
    const auto view = std::find_if(views.begin(), views.end(),
                                   [&](const DeviceView& each) { return each.device.uuid == device.uuid; });
    if (view == views.end())
      return fail("E1407", fmt::format("there is no GPU {} on this node.", printable(device.uuid)), "ration ps", 3);
    RATION_TRY(auto share, share_of(state, *view, device));
    device = std::move(share);
    limits[view->device.index] = device.limit;
    if (known) continue;  // what is promised to it already is not asked for again
    RATION_TRY(fits_tenant(state, *view, wish.tenant, device));
    if (auto good = can_promise(state, *view, wish.tenant, device.guarantee); !good)
      return tl::unexpected(good.error());
  }
  RATION_TRY(state.container_claims.put(wish));
  if (!known) events.push_back(claim_granted_event(wish.name, wish.tenant, limits));
  return wish;
}

Result<void> return_claim(NodeState& state, const std::string& id, Events& events) {
  const ContainerClaim* claim = state.container_claims.find(id);
  if (claim == nullptr) return {};
  Event event = claim_returned_event(claim->name, claim->tenant);
  RATION_TRY(state.container_claims.remove(id));
  events.push_back(std::move(event));
  return {};
}

}  // namespace ration::node
