// Warns of tenants that hold more than their soft limit, a share of their limit.
#include <memory>
#include <set>

#include "node/tenants/tenants_rules.hpp"

namespace ration::node {

namespace {

class SoftLimitRule final : public Rule {
 public:
  explicit SoftLimitRule(const Tenants& tenants) : tenants_(tenants) {}
  void run(const Moment& moment, Effects& effects) override;

 private:
  const Tenants& tenants_;
  std::set<std::pair<std::string, int>> over_;  // tenants above their soft limit, by GPU
};

void SoftLimitRule::run(const Moment& moment, Effects& effects) {
  std::set<std::pair<std::string, int>> over;
  for (const TenantStatus& tenant : tenants_.all()) {
    if (!tenant.soft || !tenant.limit.is_set()) continue;
    for (const DeviceView& device : moment.snapshot.devices) {
      const auto limit = tenant.limit.on(device.device.total, device.device.room());
      if (!limit || *limit >= kUnlimited) continue;
      Bytes used;
      for (const AccountView& account : moment.snapshot.accounts)
        if (account.tenant == tenant.name && account.gpu == device.device.index) used += account.used;
      if (static_cast<double>(used.count()) <= static_cast<double>(limit->count()) * *tenant.soft / 100) continue;
      over.emplace(tenant.name, device.device.index);
      if (over_.count({tenant.name, device.device.index}) != 0) continue;
      effects.events.push_back(soft_limit_event(tenant.name, device.device.index, used, *limit, *tenant.soft));
    }
  }
  over_ = std::move(over);
}

}  // namespace

std::unique_ptr<Rule> soft_limit_rule(const Tenants& tenants) { return std::make_unique<SoftLimitRule>(tenants); }

}  // namespace ration::node
