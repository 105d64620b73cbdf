// Reports, trims or suspends idle workloads.
#include <algorithm>
#include <memory>

#include "book/store_limits.hpp"
#include "node/residency/idle.hpp"
#include "node/residency/residency.hpp"
#include "node/rules.hpp"

namespace ration::node {

namespace {

// Requires that `after` is set.
IdlePolicy to_policy(const config::Idle& idle) {
  const auto step = [](const auto& after, IdleAction action) {
    return IdleStep{static_cast<std::uint64_t>(after.value->count()), action};
  };
  IdlePolicy result;
  result.below_percent = static_cast<int>(idle.below.value);
  result.steps.push_back(step(idle.after, idle.action.value == config::IdleAction::kSuspend ? IdleAction::kSuspend
                                          : idle.action.value == config::IdleAction::kTrim  ? IdleAction::kTrim
                                                                                            : IdleAction::kReport));
  if (idle.suspend_after.value) result.steps.push_back(step(idle.suspend_after, IdleAction::kSuspend));
  return result;
}

// Returns 0 if the whole device is idle; else asks the driver for each process.
std::optional<int> utilisation_of(const NodeState& state, const Workload& workload) {
  if (!state.machine) return std::nullopt;
  int highest = 0;
  for (const machine::Device& device : state.machine->devices) {
    const bool has_it = std::any_of(workload.book.accounts.begin(), workload.book.accounts.end(),
                                    [&](const auto& account) { return account.device == device.bytes; });
    if (!has_it) continue;
    if (!device.utilisation) return std::nullopt;
    if (*device.utilisation == 0) continue;
    if (!device.processes) return std::nullopt;
    for (const AccountView& account : state.snapshot.accounts) {
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
  void run(NodeState& state, Events& events) override;
  void forget(const std::string& path) override { idle_.forget(path); }

 private:
  IdleWatch idle_;
};

void IdleRule::run(NodeState& state, Events& events) {
  for (const auto& [path, workload] : state.registry.workloads()) {
    const config::Policy* policy = policy_of(state, workload);
    if (policy == nullptr || !policy->idle.after.value ||
        state.suspension.state_of(path) != Suspension::State::kOnDevice || state.limits.find(path) == nullptr)
      continue;
    const IdlePolicy rule = to_policy(policy->idle);
    // A workload that waits for memory is not idle.
    const std::uint64_t active_ns = workload.book.waiting > 0 ? state.now_ns : state.running[path].activity.since_ns;
    const auto decision =
        idle_.decide({path, sum(workload.used), active_ns, utilisation_of(state, workload)}, rule, state.now_ns);
    // The second half of the idle time serves to learn the activity at rest.
    const auto suspends_after = rule.suspends_after_ns();
    if (!suspends_after || idle_.idle_ns(path, state.now_ns).value_or(0) * 2 < *suspends_after) {
      state.suspension.stop_observing(path);
    } else if (const auto processes = processes_of(state, workload)) {
      state.suspension.observe_rest(path, *processes, state.now_ns);
    }
    if (!decision) continue;
    Result<void> done;
    if (decision->action == IdleAction::kSuspend) done = begin_suspension(state, workload, false);
    if (decision->action == IdleAction::kTrim &&
        book::request_trim(workload.descriptor, workload.owner) == book::BookStatus::kOk)
      begin_trim(state, workload, "policy");
    events.push_back(idle_event(event_subject(state, workload), *decision, done ? nullptr : &done.error()));
  }
}

}  // namespace

std::unique_ptr<Rule> idle_rule() { return std::make_unique<IdleRule>(); }

}  // namespace ration::node
