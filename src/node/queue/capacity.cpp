#include "node/queue/capacity.hpp"

#include <algorithm>

namespace ration::node {
namespace {

Bytes left_of(Bytes whole, Bytes taken) { return whole - std::min(whole, taken); }

}  // namespace

Bytes Capacity::Share::kept() const { return left_of(guarantee, promised + leased); }

void Capacity::set_device(int gpu, Bytes whole, Bytes promised) {
  devices_[gpu].whole = whole;
  devices_[gpu].promised = promised;
}

void Capacity::set_tenant(const std::string& tenant, int gpu, Bytes limit, Bytes guarantee, Bytes promised) {
  Share& share = tenants_[{tenant, gpu}];
  share.limit = limit;
  share.guarantee = guarantee;
  share.promised = promised;
}

void Capacity::take(const std::vector<int>& gpus, const std::string& tenant, Bytes need, Bytes of_tenant) {
  for (const int gpu : gpus) {
    tenants_[{tenant, gpu}].leased += of_tenant;
    if (const auto device = devices_.find(gpu); device != devices_.end()) device->second.leased += need;
  }
}

void Capacity::release(const std::vector<int>& gpus, const std::string& tenant, Bytes need, Bytes of_tenant) {
  for (const int gpu : gpus) {
    tenants_[{tenant, gpu}].leased -= of_tenant;
    if (const auto device = devices_.find(gpu); device != devices_.end()) device->second.leased -= need;
  }
}

std::vector<int> Capacity::gpus() const {
  std::vector<int> all;
  for (const auto& [gpu, device] : devices_) all.push_back(gpu);
  return all;
}

std::optional<Bytes> Capacity::whole(int gpu) const {
  const auto found = devices_.find(gpu);
  return found == devices_.end() ? std::nullopt : std::optional(found->second.whole);
}

Bytes Capacity::free_on(int gpu) const {
  const auto found = devices_.find(gpu);
  if (found == devices_.end()) return Bytes{0};
  return left_of(found->second.whole, found->second.promised + found->second.leased);
}

Bytes Capacity::kept_for_others(int gpu, const std::string& tenant) const {
  Bytes kept;
  for (const auto& [place, share] : tenants_)
    if (place.second == gpu && place.first != tenant) kept += share.kept();
  return kept;
}

std::vector<std::string> Capacity::others_kept_for(int gpu, const std::string& tenant) const {
  std::vector<std::string> others;
  for (const auto& [place, share] : tenants_)
    if (place.second == gpu && place.first != tenant && share.kept() > Bytes{0}) others.push_back(place.first);
  return others;
}

bool Capacity::has_room(const std::vector<int>& gpus, Bytes need, const std::string& tenant) const {
  return std::all_of(gpus.begin(), gpus.end(),
                     [&](int gpu) { return left_of(free_on(gpu), kept_for_others(gpu, tenant)) >= need; });
}

bool Capacity::could_hold(int gpu, Bytes need, const std::string& tenant, bool beside_promises) const {
  const auto found = devices_.find(gpu);
  if (found == devices_.end()) return false;
  Bytes kept;
  if (beside_promises) kept = found->second.promised + kept_for_others(gpu, tenant);
  return left_of(found->second.whole, kept) >= need;
}

std::int64_t Capacity::missing_on(int gpu, Bytes need, const std::string& tenant) const {
  const Device& device = devices_.at(gpu);
  const Bytes taken = device.promised + device.leased + kept_for_others(gpu, tenant);
  return static_cast<std::int64_t>((taken + need).count()) - static_cast<std::int64_t>(device.whole.count());
}

Ceiling Capacity::ceiling(int gpu, const std::string& tenant, bool within_limit) const {
  Ceiling most{gpu, {}, {}, within_limit ? tenant_limit(tenant, gpu).value_or(kUnlimited) : kUnlimited};
  for (const auto& [place, share] : tenants_)
    if (place.second == gpu && place.first != tenant) most.for_others += share.guarantee;
  most.bytes = std::min(left_of(devices_.at(gpu).whole, most.for_others), most.limit);
  return most;
}

std::vector<std::string> Capacity::others_guaranteed(int gpu, const std::string& tenant) const {
  std::vector<std::string> others;
  for (const auto& [place, share] : tenants_)
    if (place.second == gpu && place.first != tenant && share.guarantee > Bytes{0}) others.push_back(place.first);
  return others;
}

std::optional<Bytes> Capacity::tenant_limit(const std::string& tenant, int gpu) const {
  const auto found = tenants_.find({tenant, gpu});
  return found == tenants_.end() ? std::nullopt : found->second.limit;
}

Bytes Capacity::for_leases_of(const std::string& tenant, int gpu) const {
  const auto found = tenants_.find({tenant, gpu});
  if (found == tenants_.end() || !found->second.limit) return kUnlimited;
  return left_of(*found->second.limit, found->second.promised);
}

Bytes Capacity::tenant_room(const std::string& tenant, const std::vector<int>& gpus) const {
  Bytes room = kUnlimited;
  for (const int gpu : gpus) {
    const auto found = tenants_.find({tenant, gpu});
    if (found != tenants_.end() && found->second.limit)
      room = std::min(room, left_of(*found->second.limit, found->second.promised + found->second.leased));
  }
  return room;
}

}  // namespace ration::node
