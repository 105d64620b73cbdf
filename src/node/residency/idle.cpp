#include "node/residency/idle.hpp"

#include <algorithm>

#include "base/say.hpp"

namespace ration::node {

std::optional<std::uint64_t> IdlePolicy::suspends_after_ns() const {
  for (const IdleStep& step : steps)
    if (step.action == IdleAction::kSuspend) return step.after_ns;
  return std::nullopt;
}

void IdleWatch::forget(const std::string& id) { histories_.erase(id); }

std::optional<std::uint64_t> IdleWatch::idle_ns(const std::string& id, std::uint64_t now_ns) const {
  const auto found = histories_.find(id);
  if (found == histories_.end()) return std::nullopt;
  return now_ns - std::min(now_ns, found->second.busy_ns);
}

std::optional<IdleDecision> IdleWatch::decide(const IdleObservation& observed, const IdlePolicy& policy,
                                              std::uint64_t now_ns) {
  History& history = histories_[observed.id];
  const bool computes = observed.utilisation_percent.value_or(0) > policy.below_percent;
  if (history.trim_ends_ns != 0) {
    history.requested_until_ns = now_ns;
    if (now_ns >= history.trim_ends_ns) history.trim_ends_ns = 0;  // also counts memory freed just before the end
  }
  const std::uint64_t touched =
      observed.last_activity_ns > history.requested_until_ns ? std::min(observed.last_activity_ns, now_ns) : 0;
  const std::uint64_t busy = computes ? now_ns : touched;
  if (busy > history.busy_ns) history = {busy};
  const std::uint64_t idle = now_ns - history.busy_ns;
  if (history.steps_taken == policy.steps.size() || idle < policy.steps[history.steps_taken].after_ns)
    return std::nullopt;
  const IdleStep& step = policy.steps[history.steps_taken++];
  const bool known = observed.utilisation_percent.has_value();
  IdleDecision decision{observed.id, step.action, idle, {}};
  const std::chrono::nanoseconds length = nanoseconds(idle);
  decision.reason = known ? say<"idle.no_computing">("idle_seconds"_is(length))
                          : say<"idle.computing_unknown">("idle_seconds"_is(length));
  if (step.action == IdleAction::kSuspend && !known) {
    decision.action = IdleAction::kReport;
    decision.reason = say<"idle.stays">("idle_seconds"_is(length));
  } else if (step.action != IdleAction::kReport && observed.used == Bytes{0}) {
    decision.action = IdleAction::kReport;
    decision.reason = say<"idle.holds_nothing">("reason"_is(decision.reason));
  }
  if (decision.action == IdleAction::kTrim) history.trim_ends_ns = now_ns + kTrimTime;
  return decision;
}

}  // namespace ration::node
