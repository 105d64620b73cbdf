// Suspends one of several workloads that hold memory of a device and wait for each other's. It requests its resume at
// once.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "node/residency/residency.hpp"
#include "node/residency/standstill.hpp"
#include "node/rules.hpp"

namespace ration::node {

namespace {

/// Pause after a failed suspension.
constexpr std::uint64_t kRetryPause = 60'000'000'000;

std::string limit_of_tenant(const std::string& tenant) { return "tenant " + tenant; }

/// Returns an empty name if the policy limits each workload by itself, or not at all.
std::string limit_of_policy(const config::Policy* policy, const Workload& workload) {
  if (policy == nullptr || !policy->limit.value.is_set() || policy->per.value == config::Per::kWorkload) return {};
  return fmt::format("policy at {} {}", policy->limit.origin.text(),
                     policy->per.value == config::Per::kUser ? workload.user : "");
}

/// Returns what the sleeping charge waits for.
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

StandstillWorkload standing_of(NodeState& state, const Workload& workload) {
  using State = Suspension::State;
  StandstillWorkload standing;
  const State residency = state.suspension.state_of(workload.path);
  standing.id = workload.path;
  standing.on_device = residency == State::kOnDevice;
  standing.moving = residency == State::kSuspending || residency == State::kResuming;
  if (const TenantStatus* tenant = state.tenants.find(workload.book.tenant))
    standing.priority = static_cast<int>(tenant->priority);
  const auto failed = state.running[workload.path].suspension_failed_ns;
  standing.can_suspend = !failed || state.now_ns >= *failed + kRetryPause;
  // A workload whose request is denied after a while proceeds without help.
  const bool waits = workload.book.waiting > 0 && workload.book.on_deny == book::OnDeny::kWait;
  const OwnedWorkload* owned = state.limits.find(workload.path);
  const std::string policy = limit_of_policy(policy_of(state, workload), workload);
  for (std::size_t i = 0; owned != nullptr && i < workload.book.accounts.size(); ++i) {
    const auto gpu = gpu_of(state, workload.book.accounts[i].device);
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

class StandstillRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;

 private:
  StandstillWatch standstills_;
};

void StandstillRule::run(NodeState& state, Events& events) {
  std::vector<StandstillWorkload> standing;
  for (const auto& [path, workload] : state.registry.workloads()) standing.push_back(standing_of(state, workload));
  for (const StandstillDecision& decision : standstills_.decide(standing, state.now_ns)) {
    const Workload& victim = state.registry.workloads().at(decision.victim);
    const Workload& other = state.registry.workloads().at(decision.beneficiary);
    const std::string beneficiary = other.book.tenant + "/" + other.book.name;
    const auto begun = begin_suspension(state, victim, false);
    if (begun)
      state.suspension.request_resume(decision.victim, gave_way_text(beneficiary));
    else
      state.running[decision.victim].suspension_failed_ns = state.now_ns;
    events.push_back(gives_way_event(event_subject(state, victim),
                                     {beneficiary, decision.gpu, decision.waiting, decision.freed},
                                     begun ? nullptr : &begun.error()));
  }
}

}  // namespace

std::unique_ptr<Rule> standstill_rule() { return std::make_unique<StandstillRule>(); }

}  // namespace ration::node
