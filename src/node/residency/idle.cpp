#include "node/residency/idle.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"

namespace ration::node {

std::optional<std::uint64_t> IdlePolicy::suspends_after_ns() const {
  for (const IdleStep& step : steps)
    if (step.action == IdleAction::kSuspend) return step.after_ns;
  return std::nullopt;
}

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
  if (seen.trim_ends_ns != 0) {
    seen.forgiven_ns = now_ns;
    if (now_ns >= seen.trim_ends_ns) seen.trim_ends_ns = 0;  // what was given back at the last moment is seen by now
  }
  const std::uint64_t touched =
      facts.last_activity_ns > seen.forgiven_ns ? std::min(facts.last_activity_ns, now_ns) : 0;
  const std::uint64_t busy = computes ? now_ns : touched;
  if (busy > seen.busy_ns) seen = {busy};
  const std::uint64_t idle = now_ns - seen.busy_ns;
  if (seen.steps_taken == policy.steps.size() || idle < policy.steps[seen.steps_taken].after_ns) return std::nullopt;
  const IdleStep& step = policy.steps[seen.steps_taken++];
  const bool known = facts.utilisation_percent.has_value();
  IdleDecision decision{facts.id, step.action, idle, {}};
  decision.reason = known ? fmt::format("no memory taken or given back and no computing for {}", format_duration(idle))
                          : fmt::format("no memory taken or given back for {}; whether it computes is not known",
                                        format_duration(idle));
  if (step.action == IdleAction::kSuspend && !known) {
    decision.action = IdleAction::kReport;
    decision.reason += ", so it is not suspended";
  } else if (step.action != IdleAction::kReport && facts.used == Bytes{0}) {
    decision.action = IdleAction::kReport;
    decision.reason += ", and it holds nothing";
  }
  if (decision.action == IdleAction::kTrim) seen.trim_ends_ns = now_ns + kTrimTime;
  return decision;
}

}  // namespace ration::node
