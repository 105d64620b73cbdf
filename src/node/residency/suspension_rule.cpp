// Follows memory that has left its device, comes back, or is asked for. Runs before the snapshot and after the books
// were compared: it writes some.
#include <memory>

#include "machine/checkpoint.hpp"
#include "node/residency/residency.hpp"
#include "node/rules.hpp"

namespace ration::node {

namespace {

void note_returned(NodeState& state, const std::string& path) {
  RunningWorkload& running = state.running[path];
  running.unchecked = running.was_away = true;
}

class SuspensionRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

void SuspensionRule::run(NodeState& state, Events& events) {
  using What = Suspension::Change::What;
  // Of before a restart: where they are cannot be told, so they are brought to where they were.
  for (const auto& [path, workload] : state.registry.workloads()) {
    OwnedWorkload* owned = state.limits.find(path);
    if (owned == nullptr || !owned->suspended || state.suspension.state_of(path) != Suspension::State::kHere) continue;
    std::vector<ProcessIdentity> listed;
    for (const auto& process : workload.book.processes) listed.push_back(process.identity);
    if (state.machine && machine::is_on_device(*state.machine, listed)) {
      owned->suspended = owned->held = owned->away = false;
      state.limits.changed();
      note_returned(state, path);
      events.push_back(resumed_event(about(state, workload), true));
      continue;
    }
    if (const auto processes = processes_of(state, workload)) {
      state.suspension.adopt(path, *processes, owned->held);
      owned->away = true;
    }
  }
  for (const Suspension::Change& change : state.suspension.update(state.now_ns)) {
    const auto found = state.registry.workloads().find(change.id);
    OwnedWorkload* owned = state.limits.find(change.id);
    if (found == state.registry.workloads().end() || owned == nullptr) continue;
    const Workload& workload = found->second;
    const About who = about(state, workload);
    Event event;
    switch (change.what) {
      case What::kSuspended:
        event = suspended_event(who, sum(workload.used));
        state.residency_changes.left.push_back(change.id);
        set_away(state, workload, *owned, true, events);
        break;
      case What::kNotSuspended:
        event = not_suspended_event(who, *change.error);
        owned->suspended = owned->held = false;
        state.limits.changed();
        state.running[change.id].suspension_failed_ns = state.now_ns;
        break;
      case What::kAsks:
        if (state.running[change.id].may_return) continue;  // it asked before, and is on its way
        state.residency_changes.asking.push_back({change.id, change.because, change.sure});
        event = resuming_event(who, change.because);
        break;
      case What::kResumed:
        event = resumed_event(who);
        owned->suspended = owned->held = false;
        state.limits.changed();
        note_returned(state, change.id);
        state.running[change.id].activity.since_ns = state.now_ns;
        break;
      case What::kNotResumed:
        event = not_resumed_event(who, *change.error);
        state.residency_changes.left.push_back(change.id);
        set_away(state, workload, *owned, true, events);
        break;
    }
    events.push_back(std::move(event));
  }
}

}  // namespace

std::unique_ptr<Rule> suspension_rule() { return std::make_unique<SuspensionRule>(); }

}  // namespace ration::node
