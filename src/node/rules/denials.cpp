#include "node/rules/denials.hpp"

#include "node/events/workload_events.hpp"

namespace ration::node {

void DenialRule::run(NodeState& state, Events& events) {
  for (const auto& [path, workload] : state.registry.workloads()) {
    report_denials(state, workload, events);
    RunningWorkload::Activity& activity = state.running[path].activity;
    if (activity.since_ns == 0 || activity.used != workload.used || activity.denials != workload.book.denial_count)
      activity = {workload.used, workload.book.denial_count, state.now_ns};
  }
}

}  // namespace ration::node
