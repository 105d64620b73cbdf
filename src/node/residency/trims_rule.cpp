// Reports how much memory trim requests returned.
#include <memory>

#include "node/residency/idle.hpp"
#include "node/residency/residency_rules.hpp"

namespace ration::node {

namespace {

class TrimRule final : public Rule {
 public:
  explicit TrimRule(Residency& residency) : residency_(residency) {}
  void run(const Moment& moment, Effects& effects) override;
  [[nodiscard]] bool is_unsettled() const override { return waits_; }

 private:
  Residency& residency_;
  bool waits_ = false;  // true while programs may still return memory
};

void TrimRule::run(const Moment& moment, Effects& effects) {
  waits_ = false;
  for (const auto& [path, workload] : moment.registry.workloads()) {
    const Residency::Trim* trim = residency_.trim_of(path);
    if (trim == nullptr) continue;
    if (moment.now_ns < trim->since_ns + kTrimTime) {
      waits_ = true;
      continue;
    }
    const Bytes now = sum(workload.used), returned = trim->used - std::min(trim->used, now);
    if (returned > Bytes{0} || trim->by != kPressure)
      effects.events.push_back(trimmed_event(event_subject(moment, workload), returned, trim->used, trim->by));
    residency_.end_trim(path);
  }
}

}  // namespace

std::unique_ptr<Rule> trim_rule(Residency& residency) { return std::make_unique<TrimRule>(residency); }

}  // namespace ration::node
