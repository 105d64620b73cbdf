// Reports new denials, and notes when each workload last allocated or freed. Runs before the snapshot, because the
// denied request met the previous one.
#include <memory>

#include "node/events/workload_events.hpp"
#include "node/rules.hpp"

namespace ration::node {

namespace {

class DenialRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

void DenialRule::run(NodeState& state, Events& events) {
  for (const auto& [path, workload] : state.registry.workloads()) {
    report_denials(state, workload, events);
    RunningWorkload::Activity& activity = state.running[path].activity;
    if (activity.since_ns == 0 || activity.used != workload.used || activity.denials != workload.book.denial_count)
      activity = {workload.used, workload.book.denial_count, state.now_ns};
  }
}

}  // namespace

std::unique_ptr<Rule> denial_rule() { return std::make_unique<DenialRule>(); }

}  // namespace ration::node
