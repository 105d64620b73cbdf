// Reports new denials, and notes what each workload demands and when it last allocated or freed memory. Runs before the
// snapshot, because the previous snapshot shows the node as it was when the request was denied.
#include "node/limits/limits_rules.hpp"

namespace ration::node {

namespace {

class DenialRule final : public Rule {
 public:
  DenialRule(Denials& denials, RecentDenials& recent, Demand& demand, Activity& activity)
      : denials_(denials), recent_(recent), demand_(demand), activity_(activity) {}
  void run(const Moment& moment, Effects& effects) override;

 private:
  Denials& denials_;
  RecentDenials& recent_;
  Demand& demand_;
  Activity& activity_;
};

void DenialRule::run(const Moment& moment, Effects& effects) {
  for (const auto& [path, workload] : moment.registry.workloads()) {
    demand_.note(workload, denials_.report(moment, workload, effects.events));
    recent_.note(workload, moment.now_ns, moment.time_of_day_ns);
    activity_.note(workload, moment.now_ns);
  }
}

}  // namespace

std::unique_ptr<Rule> denial_rule(Denials& denials, RecentDenials& recent, Demand& demand, Activity& activity) {
  return std::make_unique<DenialRule>(denials, recent, demand, activity);
}

}  // namespace ration::node
