// Finds the limits of pinned host memory that policies set. Runs before the rule that corrects books, because that rule
// writes these limits.
#include <memory>

#include "machine/host_memory.hpp"
#include "node/limits/limits_rules.hpp"

namespace ration::node {

namespace {

class HostLimitRule final : public Rule {
 public:
  HostLimitRule(Limits& limits, Policies& policies) : limits_(limits), policies_(policies) {}
  void run(const Moment& moment, Effects& effects) override;

 private:
  Limits& limits_;
  Policies& policies_;
};

void HostLimitRule::run(const Moment& moment, Effects&) {
  for (const auto& [path, workload] : moment.registry.workloads()) {
    OwnedWorkload* owned = limits_.find(path);
    if (owned == nullptr) continue;
    const config::Policy* policy = policies_.of(moment, workload);
    owned->host_most = kUnlimited;
    if (policy == nullptr || !policy->host_limit.value.is_set()) continue;
    const auto most = policy->host_limit.value.on(machine::host_memory_total(), machine::host_memory_available());
    if (most) owned->host_most = *most;
  }
}

}  // namespace

std::unique_ptr<Rule> host_limit_rule(Limits& limits, Policies& policies) {
  return std::make_unique<HostLimitRule>(limits, policies);
}

}  // namespace ration::node
