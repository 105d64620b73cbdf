#include "node/state/promises.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/command.hpp"
#include "policy/configured_promises.hpp"

namespace ration::node {
namespace {

/// Whether all of that can be kept on the device. `asked` of it are new, for `tenant`; less of it might be possible
/// unless the tenant has a larger promise of its own.
Result<void> can_keep(const DeviceView& device, const std::map<std::string, Bytes>& promised, Bytes reserved,
                      const std::string& tenant, Bytes asked, bool less_would_do) {
  Bytes sum = reserved;
  for (const auto& [name, bytes] : promised) sum += bytes;
  const Bytes total = device.device.total;
  if (sum <= total) return {};
  std::string taken;
  const auto add = [&](Bytes bytes, const std::string& what) {
    if (bytes > Bytes{0}) taken += fmt::format("{}{} {}", taken.empty() ? "" : ", ", format_size(bytes), what);
  };
  for (const auto& [name, bytes] : promised)
    add(name == tenant ? bytes - std::min(bytes, asked) : bytes,
        name == tenant ? "to what else runs of " + name : "to " + name);
  add(reserved, "are sliced or kept free");
  const Bytes left = asked - std::min(asked, sum - total);
  return fail("E1304",
              fmt::format("{} cannot be promised to {}: GPU {} has {}, of which {}.", format_size(asked), tenant,
                          device.device.index, format_size(total),
                          taken.empty() ? "nothing else is promised" : "promised already: " + taken),
              left < kGranule || !less_would_do ? command({"explain", "--gpu", std::to_string(device.device.index)}) +
                                                      "   shows who is there; lower another guarantee first"
                                                : fmt::format("--guarantee {}, at most", exact_size(left)),
              4);
}

bool is_taken(const NodeState& state, const policy::Slice& slice) {
  return std::any_of(state.registry.workloads().begin(), state.registry.workloads().end(),
                     [&](const auto& each) { return each.second.book.slice == slice.name; });
}

Bytes slice_on(const NodeState& state, const DeviceView& device, const std::string& name) {
  for (const policy::Slice& slice : state.slices)
    if (!name.empty() && slice.name == name && slice.uuid == device.device.uuid)
      return std::min(slice.size, device.sliced);
  return Bytes{0};
}

/// Of running workloads but that of `except`, by tenant.
std::map<std::string, Bytes> promises_on(const NodeState& state, const DeviceView& device, const std::string& except) {
  std::map<std::string, Bytes> promised;
  for (const AccountView& account : state.snapshot.accounts)
    if (account.gpu == device.device.index && account.path != except && !account.suspended)
      promised[account.tenant] += account.guarantee;
  return promised;
}

}  // namespace

Leases::Shares shares(const NodeState& state) {
  Leases::Shares found;
  for (const TenantNow& tenant : state.tenants.all()) {
    for (const DeviceView& device : state.snapshot.devices) {
      Leases::Share share;
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
  Bytes reserved = policy::kept_free(state.configuration, device);
  for (const policy::Slice& slice : state.slices)
    if (slice.uuid == device.uuid && !is_taken(state, slice)) reserved += slice.size;
  return reserved;
}

Result<void> can_promise(const NodeState& state, const DeviceView& device, const std::string& tenant, Bytes more,
                         const std::string& except, const std::string& slice) {
  std::map<std::string, Bytes> promised = promises_on(state, device, except);
  const Bytes own = promised[tenant] += more;
  for (const auto& [name, bytes] : guarantees_on(state, device.device))
    promised[name] = std::max(promised[name], bytes);
  return can_keep(device, promised, device.keep_free + device.sliced - slice_on(state, device, slice), tenant, more,
                  promised[tenant] == own);
}

Result<void> can_guarantee(const NodeState& state, const DeviceView& device, const std::string& tenant,
                           Bytes guarantee) {
  std::map<std::string, Bytes> promised = promises_on(state, device, "");
  const bool less_would_do = guarantee >= promised[tenant];
  promised[tenant] = std::max(promised[tenant], guarantee);
  for (const auto& [name, bytes] : guarantees_on(state, device.device))
    if (name != tenant) promised[name] = std::max(promised[name], bytes);
  return can_keep(device, promised, device.keep_free + device.sliced, tenant, guarantee, less_would_do);
}

Result<void> may_promise(const NodeState& state, const DeviceView& device, const std::string& tenant, Bytes more,
                         const std::string& slice) {
  if (more <= slice_on(state, device, slice)) return {};
  std::map<std::string, Bytes> promised = promises_on(state, device, ""),
                               configured = guarantees_on(state, device.device);
  const Bytes own = promised[tenant], most = configured[tenant];
  if (own + more <= most) return {};
  const std::string kept = own == Bytes{0} ? "" : fmt::format(", of which {} is taken", format_size(own));
  return fail(
      "E1502",
      fmt::format("{} of GPU {} may not be kept from others for {}: it is guaranteed {} there{}.", format_size(more),
                  device.device.index, tenant, most == Bytes{0} ? "nothing" : format_size(most), kept),
      fmt::format(
          "Leave --guarantee or --slice out, or ask root or a member of group ration for a [[tenant]] in ration.toml "
          "with guarantee = \"{}\" and match = {{ users }} that names you",
          exact_size(own + more)),
      5);
}

}  // namespace ration::node
