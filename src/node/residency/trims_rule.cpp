// Reports what trim requests returned.
#include <memory>

#include "node/residency/idle.hpp"
#include "node/rules.hpp"

namespace ration::node {

namespace {

class TrimRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
  [[nodiscard]] bool is_unsettled() const override { return waits_; }

 private:
  bool waits_ = false;  // for memory to be returned
};

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
    events.push_back(trimmed_event(event_subject(state, workload), returned, trim->used, trim->by));
    trim.reset();
  }
}

}  // namespace

std::unique_ptr<Rule> trim_rule() { return std::make_unique<TrimRule>(); }

}  // namespace ration::node
