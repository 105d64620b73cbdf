#include "node/rules/schedules.hpp"

namespace ration::node {

void ScheduleRule::run(NodeState& state, Events& events) {
  for (const TenantChange& change : state.tenants.update(state.configuration, local_time(state.time_of_day_ns)))
    events.push_back(tenant_resized_event(change));
}

}  // namespace ration::node
