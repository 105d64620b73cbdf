#include "admission/promises.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/command.hpp"
#include "base/say.hpp"
#include "base/units.hpp"

namespace ration::admission {

void Promises::add_workload(const std::string& tenant, Bytes guarantee, Bytes used) {
  Share& share = tenants_[tenant];
  share.of_workloads += guarantee;
  share.used += used;
  share.unspent_of_workloads += guarantee - std::min(guarantee, used);
}

void Promises::set_tenant(const std::string& tenant, Bytes guarantee) { tenants_[tenant].own = guarantee; }

Bytes Promises::to(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? Bytes{0} : std::max(found->second.own, found->second.of_workloads);
}

Bytes Promises::to_workloads_of(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? Bytes{0} : found->second.of_workloads;
}

Bytes Promises::total() const {
  Bytes sum = reserved_;
  for (const auto& [tenant, share] : tenants_) sum += std::max(share.own, share.of_workloads);
  return sum;
}

Bytes Promises::taken_by(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? Bytes{0} : found->second.used + found->second.unspent_of_workloads;
}

Bytes Promises::taken() const {
  Bytes sum;
  for (const auto& [tenant, share] : tenants_) sum += share.used + share.unspent_of_workloads;
  return sum;
}

Bytes Promises::unspent() const {
  Bytes sum = reserved_;
  for (const auto& [tenant, bytes] : unspent_by_tenant()) sum += bytes;
  return sum;
}

std::map<std::string, Bytes> Promises::unspent_by_tenant() const {
  std::map<std::string, Bytes> unspent;
  for (const auto& [tenant, share] : tenants_) {
    const Bytes bytes = std::max(share.unspent_of_workloads, share.own - std::min(share.own, share.used));
    if (bytes > Bytes{0}) unspent[tenant] = bytes;
  }
  return unspent;
}

Bytes Promises::kept_from(const std::string& tenant) const {
  Promises others = *this;
  others.set_tenant(tenant, Bytes{0});
  return others.unspent();
}

Result<void> Promises::can_add(const machine::Device& device, const std::string& tenant, Bytes more) const {
  Promises then = *this;
  then.add_workload(tenant, more);
  return then.check(device, tenant, more, to(tenant));
}

Result<void> Promises::can_set(const machine::Device& device, const std::string& tenant, Bytes guarantee) const {
  Promises then = *this;
  then.set_tenant(tenant, guarantee);
  return then.check(device, tenant, guarantee, to_workloads_of(tenant));
}

Result<void> Promises::check(const machine::Device& device, const std::string& tenant, Bytes asked,
                             Bytes without) const {
  const Bytes sum = total();
  if (sum <= device.total) return {};
  std::vector<Message> taken;
  for (const auto& [name, share] : tenants_) {
    const Bytes bytes = std::max(share.own, share.of_workloads), others = bytes - std::min(bytes, asked);
    if (name == tenant && others > Bytes{0})
      taken.push_back(say<"guarantee.taken_by_same">("taken_bytes"_is(others), "tenant"_is(name)));
    if (name != tenant && bytes > Bytes{0})
      taken.push_back(say<"guarantee.taken_by">("taken_bytes"_is(bytes), "tenant"_is(name)));
  }
  if (reserved_ > Bytes{0}) taken.push_back(say<"guarantee.taken_by_slices">("taken_bytes"_is(reserved_)));
  const Bytes excess = sum - device.total;
  const bool less_would_do = to(tenant) - without >= excess;
  const Bytes left = round_down(asked - std::min(asked, excess), kGranule);
  return fail(
      "E1304",
      say<"guarantee.no_room">(
          "asked_bytes"_is(asked), "tenant"_is(tenant), "gpu"_is(device.index), "total_bytes"_is(device.total),
          "taken"_is(taken.empty() ? say<"guarantee.nothing_taken">() : say<"guarantee.taken">("parts"_is(taken)))),
      left == Bytes{0} || !less_would_do ? command({"explain", "--gpu", std::to_string(device.index)}) +
                                               "   shows which workloads hold memory; lower another guarantee first"
                                         : fmt::format("--guarantee {}, at most", exact_size(left)),
      4);
}

}  // namespace ration::admission
