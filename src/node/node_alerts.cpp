// The rules of [alerts] and the soft limits of tenants, held against what the last look saw.
#include <fmt/format.h>

#include "node/node.hpp"

namespace ration::node {

using history::Event;
using history::plain_event;

void Node::raise_alerts(std::vector<Event>& events) {
  std::vector<config::Fact> facts;
  const auto bytes = [](Bytes size) { return static_cast<double>(size.count()); };
  for (const DeviceView& device : snapshot_.devices) {
    if (const auto used = device.used())
      facts.push_back(
          {"device.used", fmt::format("GPU {}", device.device.index), bytes(*used), bytes(device.device.total)});
    if (device.seconds_to_full)
      facts.push_back({"device.time_to_full", fmt::format("GPU {}", device.device.index),
                       static_cast<double>(*device.seconds_to_full) * 1e9, std::nullopt});
  }
  std::map<std::pair<std::string, int>, std::pair<Bytes, Bytes>> tenants;
  for (const AccountView& account : snapshot_.accounts) {
    auto& [used, limit] = tenants[{account.tenant, account.gpu.value_or(-1)}];
    used += account.used;
    limit += account.limit;
    if (account.used == Bytes{0}) continue;
    facts.push_back({"idle", fmt::format("{}/{}", account.tenant, account.workload),
                     static_cast<double>(account.idle_ns), std::nullopt});
  }
  for (const auto& [key, sums] : tenants)
    facts.push_back(
        {"tenant.used", fmt::format("{} on GPU {}", key.first, key.second), bytes(sums.first), bytes(sums.second)});
  constexpr std::uint64_t kMinuteNs = 60'000'000'000;
  for (auto& [name, times] : recent_denials_) {
    std::erase_if(times, [&](std::uint64_t time) { return time + kMinuteNs < now_ns_; });
    if (!times.empty()) facts.push_back({"denials", name, static_cast<double>(times.size()), std::nullopt});
  }
  std::erase_if(recent_denials_, [](const auto& entry) { return entry.second.empty(); });
  facts.push_back({"queue.length", "the queue", static_cast<double>(queue_length_), std::nullopt});
  for (const Event& event : events)
    if (event.type == "guard_lost") facts.push_back({"guard.lost", event.text, 1, std::nullopt});
  for (const config::AlertChange& change : alerts_.evaluate(facts, std::chrono::nanoseconds(now_ns_))) {
    events.push_back(plain_event(
        "alert", fmt::format("{}: {} ({})", change.about, change.raised ? "raised" : "cleared", change.rule)));
  }
}

void Node::warn_of_soft_limits(std::vector<Event>& events) {
  std::set<std::pair<std::string, int>> over;
  for (const TenantNow& tenant : tenants_.all()) {
    if (!tenant.soft || !tenant.limit.is_set()) continue;
    for (const DeviceView& device : snapshot_.devices) {
      const auto limit = tenant.limit.on(device.device.total, device.device.room());
      if (!limit || *limit >= kUnlimited) continue;
      Bytes used;
      for (const AccountView& account : snapshot_.accounts)
        if (account.tenant == tenant.name && account.gpu == device.device.index) used += account.used;
      if (static_cast<double>(used.count()) <= static_cast<double>(limit->count()) * *tenant.soft / 100) continue;
      over.emplace(tenant.name, device.device.index);
      if (over_soft_.count({tenant.name, device.device.index}) != 0) continue;
      Event event =
          plain_event("alert", fmt::format("tenant {} holds {} on GPU {}: more than {:g}% of its limit {}", tenant.name,
                                           format_size(used), device.device.index, *tenant.soft, format_size(*limit)));
      event.tenant = tenant.name;
      event.gpu = device.device.index;
      event.bytes = static_cast<std::int64_t>(used.count());
      events.push_back(std::move(event));
    }
  }
  over_soft_ = std::move(over);
}

}  // namespace ration::node
