// Reports, trims or suspends idle workloads.
#include <algorithm>
#include <memory>

#include "book/store_limits.hpp"
#include "node/residency/idle.hpp"
#include "node/residency/residency_rules.hpp"

namespace ration::node {

namespace {

// Converts the settings, whose `after` must be set.
IdlePolicy to_policy(const config::Idle& idle) {
  const auto step = [](const auto& after, IdleAction action) {
    return IdleStep{static_cast<std::uint64_t>(after.value->count()), action};
  };
  IdlePolicy result;
  result.below_percent = static_cast<int>(idle.below.value);
  result.steps.push_back(step(idle.after, idle.action.value));
  if (idle.suspend_after.value) result.steps.push_back(step(idle.suspend_after, IdleAction::kSuspend));
  return result;
}

// Returns the utilisation by the workload's busiest process, in per cent; nothing if the driver does not report it. On
// a device that is idle as a whole, every process counts as 0.
std::optional<int> utilisation_of(const Moment& moment, const Workload& workload) {
  if (!moment.machine) return std::nullopt;
  int highest = 0;
  for (const machine::Device& device : moment.machine->devices) {
    const bool has_it = std::any_of(workload.book.accounts.begin(), workload.book.accounts.end(),
                                    [&](const auto& account) { return account.device == device.bytes; });
    if (!has_it) continue;
    if (!device.utilisation) return std::nullopt;
    if (*device.utilisation == 0) continue;
    if (!device.processes) return std::nullopt;
    for (const AccountView& account : moment.snapshot.accounts) {
      if (account.path != workload.path || account.gpu != device.index) continue;
      for (const ProcessView& process : account.processes) {
        const auto same = std::find_if(device.processes->begin(), device.processes->end(),
                                       [&](const auto& each) { return each.pid == process.pid; });
        if (same == device.processes->end()) {
          if (process.driver_used || process.used == Bytes{0}) continue;  // not on this device
          return std::nullopt;
        }
        if (!same->utilisation) return std::nullopt;
        highest = std::max(highest, *same->utilisation);
      }
    }
  }
  return highest;
}

class IdleRule final : public Rule {
 public:
  IdleRule(Residency& residency, const Limits& limits, Policies& policies, const Activity& activity)
      : residency_(residency), limits_(limits), policies_(policies), activity_(activity) {}
  void run(const Moment& moment, Effects& effects) override;
  void forget(const std::string& path) override { idle_.forget(path); }

 private:
  Residency& residency_;
  const Limits& limits_;
  Policies& policies_;
  const Activity& activity_;
  IdleWatch idle_;
};

void IdleRule::run(const Moment& moment, Effects& effects) {
  Suspension& suspension = residency_.suspension();
  for (const auto& [path, workload] : moment.registry.workloads()) {
    const config::Policy* policy = policies_.of(moment, workload);
    if (policy == nullptr || !policy->idle.after.value || suspension.state_of(path) != Suspension::State::kOnDevice ||
        limits_.find(path) == nullptr)
      continue;
    const IdlePolicy rule = to_policy(policy->idle);
    // A workload that waits for memory is not idle.
    const std::uint64_t active_ns = workload.book.waiting > 0 ? moment.now_ns : activity_.since_ns(path);
    const auto decision =
        idle_.decide({path, sum(workload.used), active_ns, utilisation_of(moment, workload)}, rule, moment.now_ns);
    // Learns the activity at rest in the second half of the idle time that precedes a suspension.
    const auto suspends_after = rule.suspends_after_ns();
    if (!suspends_after || idle_.idle_ns(path, moment.now_ns).value_or(0) * 2 < *suspends_after) {
      suspension.stop_observing(path);
    } else if (const auto processes = processes_of(moment, workload)) {
      suspension.observe_rest(path, *processes, moment.now_ns);
    }
    if (!decision) continue;
    Result<void> done;
    if (decision->action == IdleAction::kSuspend) done = residency_.begin_suspension(moment, workload, false);
    if (decision->action == IdleAction::kTrim &&
        book::request_trim(workload.descriptor, workload.owner) == book::BookStatus::kOk)
      residency_.begin_trim(moment, workload, "policy");
    effects.events.push_back(idle_event(event_subject(moment, workload), decision->action, decision->reason,
                                        done ? nullptr : &done.error()));
  }
}

}  // namespace

std::unique_ptr<Rule> idle_rule(Residency& residency, const Limits& limits, Policies& policies,
                                const Activity& activity) {
  return std::make_unique<IdleRule>(residency, limits, policies, activity);
}

}  // namespace ration::node
