// Suspends one of several workloads that hold memory of a device and wait for each other's memory. The suspended
// workload requests its resume at once.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "node/residency/residency_rules.hpp"
#include "node/residency/standstill.hpp"

namespace ration::node {

namespace {

/// Pause after a failed suspension.
constexpr std::uint64_t kRetryPause = 60'000'000'000;

std::string limit_of_tenant(const std::string& tenant) { return "tenant " + tenant; }

/// Returns a name for the limit that workloads share by the policy; empty if the policy limits each workload by itself,
/// or not at all.
std::string limit_of_policy(const config::Policy* policy, const Workload& workload) {
  if (policy == nullptr || !policy->limit.value.is_set() || policy->per.value == config::Per::kWorkload) return {};
  return fmt::format("policy at {} {}", policy->limit.origin.text(),
                     policy->per.value == config::Per::kUser ? workload.user : "");
}

/// Returns what the waiting request for memory waits for.
WaitsFor obstacle(const OwnedLimit& limit, Bytes needed, bool policy_is_shared) {
  if (needed <= limit.in_force) return WaitsFor::kDevice;
  if (needed > limit.configured) return WaitsFor::kOwnLimit;
  switch (limit.reason) {
    case LimitReason::kConfigured:
      return policy_is_shared ? WaitsFor::kSharedLimit : WaitsFor::kOwnLimit;
    case LimitReason::kTenantLimit:
      return WaitsFor::kSharedLimit;
    case LimitReason::kGuarantees:
    case LimitReason::kMustShrink:
      break;
  }
  return WaitsFor::kDevice;
}

class StandstillRule final : public Rule {
 public:
  StandstillRule(Residency& residency, const Limits& limits, const Tenants& tenants, Policies& policies)
      : residency_(residency), limits_(limits), tenants_(tenants), policies_(policies) {}
  void run(const Moment& moment, Effects& effects) override;

 private:
  [[nodiscard]] StandstillWorkload standing_of(const Moment& moment, const Workload& workload);

  Residency& residency_;
  const Limits& limits_;
  const Tenants& tenants_;
  Policies& policies_;
  StandstillWatch standstills_;
};

StandstillWorkload StandstillRule::standing_of(const Moment& moment, const Workload& workload) {
  using State = Suspension::State;
  StandstillWorkload standing;
  const State residency = residency_.suspension().state_of(workload.path);
  standing.id = workload.path;
  standing.on_device = residency == State::kOnDevice;
  standing.moving = residency == State::kSuspending || residency == State::kResuming;
  if (const TenantStatus* tenant = tenants_.find(workload.book.tenant))
    standing.priority = static_cast<int>(tenant->priority);
  const auto failed = residency_.failed_ns(workload.path);
  standing.can_suspend = !failed || moment.now_ns >= *failed + kRetryPause;
  // A workload whose waiting request is denied after a while goes on without help.
  const bool waits = workload.book.waiting > 0 && workload.book.on_deny == book::OnDeny::kWait;
  const OwnedWorkload* owned = limits_.find(workload.path);
  const std::string policy = limit_of_policy(policies_.of(moment, workload), workload);
  for (std::size_t i = 0; owned != nullptr && i < workload.book.accounts.size(); ++i) {
    const auto gpu = gpu_of(moment, workload.book.accounts[i].device);
    if (!gpu) continue;
    const OwnedLimit& limit = owned->accounts[i];
    StandstillAccount account{*gpu, workload.used[i], limit.guarantee, WaitsFor::kNothing, {}, {}};
    account.shared_limits.insert(limit_of_tenant(workload.book.tenant));
    if (!policy.empty()) account.shared_limits.insert(policy);
    if (const Bytes wanted = workload.book.wanted[i]; waits && wanted > Bytes{0})
      account.waits_for = obstacle(limit, workload.used[i] + wanted, !policy.empty());
    if (account.waits_for == WaitsFor::kSharedLimit)
      account.shared_limit = limit.reason == LimitReason::kTenantLimit ? limit_of_tenant(workload.book.tenant) : policy;
    standing.accounts.push_back(std::move(account));
  }
  return standing;
}

void StandstillRule::run(const Moment& moment, Effects& effects) {
  std::vector<StandstillWorkload> standing;
  for (const auto& [path, workload] : moment.registry.workloads()) standing.push_back(standing_of(moment, workload));
  for (const StandstillDecision& decision : standstills_.decide(standing, moment.now_ns)) {
    const Workload& victim = moment.registry.workloads().at(decision.victim);
    const Workload& other = moment.registry.workloads().at(decision.beneficiary);
    const std::string beneficiary = other.book.tenant + "/" + other.book.name;
    const auto begun = residency_.begin_suspension(moment, victim, false);
    if (begun)
      residency_.suspension().request_resume(decision.victim, gave_way_text(beneficiary));
    else
      residency_.note_failed(decision.victim, moment.now_ns);
    effects.events.push_back(gives_way_event(event_subject(moment, victim),
                                             {beneficiary, decision.gpu, decision.waiting, decision.freed},
                                             begun ? nullptr : &begun.error()));
  }
}

}  // namespace

std::unique_ptr<Rule> standstill_rule(Residency& residency, const Limits& limits, const Tenants& tenants,
                                      Policies& policies) {
  return std::make_unique<StandstillRule>(residency, limits, tenants, policies);
}

}  // namespace ration::node
