#include "node/rules/schedules.hpp"

#include "node/events/tenant_events.hpp"

namespace ration::node {

using history::Event;
using history::plain_event;

void ScheduleRule::run(NodeState& state, Events& events) {
  for (const TenantChange& change : state.tenants.update(state.configuration, local_time(state.now_ns)))
    events.push_back(tenant_changed_event(change));
}

}  // namespace ration::node
