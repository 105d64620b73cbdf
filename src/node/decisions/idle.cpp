#include "node/decisions/idle.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"

namespace ration::node {

void IdleWatch::forget(const std::string& id) { seen_.erase(id); }

std::optional<std::uint64_t> IdleWatch::idle_ns(const std::string& id, std::uint64_t now_ns) const {
  const auto found = seen_.find(id);
  if (found == seen_.end()) return std::nullopt;
  return now_ns - std::min(now_ns, found->second.busy_ns);
}

std::optional<IdleDecision> IdleWatch::decide(const WorkloadFacts& facts, const IdlePolicy& policy,
                                              std::uint64_t now_ns) {
  Seen& seen = seen_[facts.id];
  const bool computes = facts.utilisation_percent.value_or(0) > policy.below_percent;
  const std::uint64_t busy = computes ? now_ns : std::min(facts.last_activity_ns, now_ns);
  if (busy > seen.busy_ns) seen = {busy, false};
  const std::uint64_t idle = now_ns - seen.busy_ns;
  if (idle < policy.after_ns || seen.answered) return std::nullopt;
  seen.answered = true;
  const bool known = facts.utilisation_percent.has_value();
  IdleDecision decision{facts.id, policy.action, idle, {}};
  decision.reason = known ? fmt::format("no memory taken or given back and no computing for {}", format_duration(idle))
                          : fmt::format("no memory taken or given back for {}; whether it computes is not known",
                                        format_duration(idle));
  if (policy.action == IdleAction::kSuspend && !known) {
    decision.action = IdleAction::kReport;
    decision.reason += ", so it is not suspended";
  } else if (policy.action != IdleAction::kReport && facts.used == Bytes{0}) {
    decision.action = IdleAction::kReport;
    decision.reason += ", and it holds nothing";
  }
  return decision;
}

}  // namespace ration::node
