// Applies the limits of tenants that are in force at this hour.
#include <memory>

#include "node/rules.hpp"

namespace ration::node {

namespace {

class ScheduleRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

void ScheduleRule::run(NodeState& state, Events& events) {
  for (const TenantChange& change : state.tenants.update(state.configuration, local_time(state.time_of_day_ns)))
    events.push_back(tenant_resized_event(change));
}

}  // namespace

std::unique_ptr<Rule> schedule_rule() { return std::make_unique<ScheduleRule>(); }

}  // namespace ration::node
