#include "node/rules/trims.hpp"

#include "node/decisions/idle.hpp"

namespace ration::node {

void TrimRule::run(NodeState& state, Events& events) {
  waits_ = false;
  for (const auto& [path, workload] : state.registry.workloads()) {
    std::optional<RunningWorkload::Trim>& trim = state.running[path].trim;
    if (!trim) continue;
    if (state.now_ns < trim->since_ns + kTrimTime) {
      waits_ = true;
      continue;
    }
    const Bytes now = sum(workload.used), returned = trim->used - std::min(trim->used, now);
    events.push_back(trimmed_event(about(state, workload), returned, trim->used, trim->by));
    trim.reset();
  }
}

}  // namespace ration::node
