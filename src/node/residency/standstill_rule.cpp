// Suspends one of several programs that hold memory of a device and wait for each other's. It asks to return at once.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "node/residency/residency.hpp"
#include "node/residency/standstill.hpp"
#include "node/rules.hpp"

namespace ration::node {

namespace {

/// Whose memory could not be moved is left in peace for so long.
constexpr std::uint64_t kTriedAgain = 60'000'000'000;

std::string pool_of_tenant(const std::string& tenant) { return "tenant " + tenant; }

/// Empty: the policy gives each workload a limit of its own, or none.
std::string pool_of_policy(const config::Policy* policy, const Workload& workload) {
  if (policy == nullptr || !policy->limit.value.is_set() || policy->per.value == config::Per::kWorkload) return {};
  return fmt::format("policy at {} {}", policy->limit.origin.text(),
                     policy->per.value == config::Per::kUser ? workload.user : "");
}

/// What stands in the way of a charge that sleeps.
WaitsFor obstacle(const OwnedLimit& limit, Bytes needed, bool has_pool_of_policy) {
  if (needed <= limit.effective) return WaitsFor::kDevice;
  if (needed > limit.configured) return WaitsFor::kItself;
  switch (limit.reason) {
    case LimitReason::kConfigured:
      return has_pool_of_policy ? WaitsFor::kPool : WaitsFor::kItself;
    case LimitReason::kTenantLimit:
      return WaitsFor::kPool;
    case LimitReason::kGuarantees:
    case LimitReason::kGivingBack:
      break;
  }
  return WaitsFor::kDevice;
}

StandstillWorkload standing_of(NodeState& state, const Workload& workload) {
  using State = Suspension::State;
  StandstillWorkload standing;
  const State residency = state.suspension.state_of(workload.path);
  standing.id = workload.path;
  standing.here = residency == State::kHere;
  standing.moves = residency == State::kLeaving || residency == State::kReturning;
  if (const TenantNow* tenant = state.tenants.find(workload.book.tenant))
    standing.priority = static_cast<int>(tenant->priority);
  const auto failed = state.running[workload.path].suspension_failed_ns;
  standing.can_leave = !failed || state.now_ns >= *failed + kTriedAgain;
  // Who is denied after a while goes on by itself.
  const bool waits = workload.book.waiting > 0 && workload.book.on_deny == book::OnDeny::kWait;
  const OwnedWorkload* owned = state.limits.find(workload.path);
  const std::string policy = pool_of_policy(policy_of(state, workload), workload);
  for (std::size_t i = 0; owned != nullptr && i < workload.book.accounts.size(); ++i) {
    const auto gpu = gpu_of(state, workload.book.accounts[i].device);
    if (!gpu) continue;
    const OwnedLimit& limit = owned->accounts[i];
    StandstillPlace place{*gpu, workload.used[i], limit.guarantee, WaitsFor::kNothing, {}, {}};
    place.pools.insert(pool_of_tenant(workload.book.tenant));
    if (!policy.empty()) place.pools.insert(policy);
    if (const Bytes wanted = workload.book.wanted[i]; waits && wanted > Bytes{0})
      place.waits_for = obstacle(limit, workload.used[i] + wanted, !policy.empty());
    if (place.waits_for == WaitsFor::kPool)
      place.pool = limit.reason == LimitReason::kTenantLimit ? pool_of_tenant(workload.book.tenant) : policy;
    standing.places.push_back(std::move(place));
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
    const Workload& leaver = state.registry.workloads().at(decision.leaves);
    const Workload& other = state.registry.workloads().at(decision.for_whom);
    const std::string for_whom = other.book.tenant + "/" + other.book.name;
    const auto begun = begin_suspension(state, leaver, false);
    if (begun)
      state.suspension.ask(decision.leaves, gave_way_text(for_whom));
    else
      state.running[decision.leaves].suspension_failed_ns = state.now_ns;
    events.push_back(gives_way_event(about(state, leaver), {for_whom, decision.gpu, decision.waiting, decision.freed},
                                     begun ? nullptr : &begun.error()));
  }
}

}  // namespace

std::unique_ptr<Rule> standstill_rule() { return std::make_unique<StandstillRule>(); }

}  // namespace ration::node
