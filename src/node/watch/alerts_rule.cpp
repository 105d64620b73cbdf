// Evaluates the rules of [alerts] against the latest snapshot.
#include <fmt/format.h>

#include <memory>

#include "base/say.hpp"
#include "config/alerts.hpp"
#include "node/watch/watch_rules.hpp"

namespace ration::node {

namespace {

class AlertRule final : public Rule {
 public:
  AlertRule(RecentDenials& recent_denials, const DevicePromises& promises)
      : recent_denials_(recent_denials), promises_(promises) {}
  void run(const Moment& moment, Effects& effects) override;
  void configure(const config::Configuration& configuration) override {
    alerts_.configure(configuration.alerts.rules.value);
  }

 private:
  RecentDenials& recent_denials_;
  const DevicePromises& promises_;
  config::Alerts alerts_;
};

void AlertRule::run(const Moment& moment, Effects& effects) {
  std::vector<config::Fact> facts;
  const auto bytes = [](Bytes size) { return static_cast<double>(size.count()); };
  for (const DeviceView& device : moment.snapshot.devices) {
    if (const auto used = device.used())
      facts.push_back(
          {"device.used", fmt::format("GPU {}", device.device.index), bytes(*used), bytes(device.device.total)});
    if (device.seconds_to_full)
      facts.push_back({"device.time_to_full", fmt::format("GPU {}", device.device.index),
                       static_cast<double>(*device.seconds_to_full) * 1e9, std::nullopt});
  }
  std::map<std::pair<std::string, int>, std::pair<Bytes, Bytes>> tenants;
  for (const AccountView& account : moment.snapshot.accounts) {
    auto& [used, limit] = tenants[{account.tenant, account.gpu.value_or(-1)}];
    used += account.used;
    limit += account.limit;
    if (account.used == Bytes{0} || !account.idle_ns) continue;
    facts.push_back({"idle", fmt::format("{}/{}", account.tenant, account.workload),
                     static_cast<double>(*account.idle_ns), std::nullopt});
  }
  const TenantShares shares = promises_.shares(moment);
  for (const auto& [key, sums] : tenants) {
    const auto share = shares.find(key);
    const bool limited = share != shares.end() && share->second.limit < kUnlimited;
    facts.push_back({"tenant.used", say<"alert.of_tenant">("tenant"_is(key.first), "gpu"_is(key.second)),
                     bytes(sums.first), bytes(limited ? share->second.limit : sums.second)});
  }
  for (const auto& [name, count] : recent_denials_.counts(moment.now_ns))
    facts.push_back({"denials", name, static_cast<double>(count), std::nullopt});
  facts.push_back({"queue.length", say<"alert.of_queue">(), static_cast<double>(moment.queue_length), std::nullopt});
  for (const Event& event : effects.events)
    if (event.type == EventType::kGuardLost) facts.push_back({"guard.lost", event.text, 1, std::nullopt});
  for (const config::AlertChange& change : alerts_.evaluate(facts, std::chrono::nanoseconds(moment.now_ns)))
    effects.events.push_back(alert_event(change));
}

}  // namespace

std::unique_ptr<Rule> alert_rule(RecentDenials& recent_denials, const DevicePromises& promises) {
  return std::make_unique<AlertRule>(recent_denials, promises);
}

}  // namespace ration::node
