// Warns of tenants that hold more than their soft limit, a share of their limit.
#include <memory>
#include <set>

#include "node/rules.hpp"

namespace ration::node {

namespace {

class SoftLimitRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;

 private:
  std::set<std::pair<std::string, int>> over_;  // tenants above it, by GPU
};

void SoftLimitRule::run(NodeState& state, Events& events) {
  std::set<std::pair<std::string, int>> over;
  for (const TenantStatus& tenant : state.tenants.all()) {
    if (!tenant.soft || !tenant.limit.is_set()) continue;
    for (const DeviceView& device : state.snapshot.devices) {
      const auto limit = tenant.limit.on(device.device.total, device.device.room());
      if (!limit || *limit >= kUnlimited) continue;
      Bytes used;
      for (const AccountView& account : state.snapshot.accounts)
        if (account.tenant == tenant.name && account.gpu == device.device.index) used += account.used;
      if (static_cast<double>(used.count()) <= static_cast<double>(limit->count()) * *tenant.soft / 100) continue;
      over.emplace(tenant.name, device.device.index);
      if (over_.count({tenant.name, device.device.index}) != 0) continue;
      events.push_back(soft_limit_event(tenant.name, device.device.index, used, *limit, *tenant.soft));
    }
  }
  over_ = std::move(over);
}

}  // namespace

std::unique_ptr<Rule> soft_limit_rule() { return std::make_unique<SoftLimitRule>(); }

}  // namespace ration::node
