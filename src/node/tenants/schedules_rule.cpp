// Applies the limits of tenants that are in force at this hour.
#include <memory>

#include "node/tenants/tenants_rules.hpp"

namespace ration::node {

namespace {

class ScheduleRule final : public Rule {
 public:
  ScheduleRule(Tenants& tenants, const Schedules& schedules) : tenants_(tenants), schedules_(schedules) {}
  void run(const Moment& moment, Effects& effects) override;

 private:
  Tenants& tenants_;
  const Schedules& schedules_;
};

void ScheduleRule::run(const Moment& moment, Effects& effects) {
  const auto scheduled = schedules_.limits_at(moment.configuration, local_time(moment.time_of_day_ns));
  for (const TenantChange& change : tenants_.update(moment.configuration, scheduled))
    effects.events.push_back(tenant_resized_event(change));
}

}  // namespace

std::unique_ptr<Rule> schedule_rule(Tenants& tenants, const Schedules& schedules) {
  return std::make_unique<ScheduleRule>(tenants, schedules);
}

}  // namespace ration::node
