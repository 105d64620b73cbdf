// Follows suspensions and resumptions. Runs before the snapshot and after TamperRule, because it writes books.
#include <memory>

#include "machine/checkpoint.hpp"
#include "node/residency/residency.hpp"
#include "node/rules.hpp"

namespace ration::node {

namespace {

void note_resumed(NodeState& state, const std::string& path) {
  RunningWorkload& running = state.running[path];
  running.guarantee_unchecked = running.was_suspended = true;
}

class SuspensionRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

void SuspensionRule::run(NodeState& state, Events& events) {
  using What = Suspension::Change::What;
  // After a restart, the state of a move is unknown; the workload resumes where the earlier daemon left it.
  for (const auto& [path, workload] : state.registry.workloads()) {
    OwnedWorkload* owned = state.limits.find(path);
    if (owned == nullptr || !owned->suspended || state.suspension.state_of(path) != Suspension::State::kOnDevice)
      continue;
    std::vector<ProcessIdentity> listed;
    std::vector<std::int32_t> pids;
    for (const auto& process : workload.book.processes) {
      listed.push_back(process.identity);
      pids.push_back(process.identity.pid);
    }
    if (state.machine && machine::is_on_device(*state.machine, listed)) {
      owned->suspended = owned->held_by_person = owned->guarantee_lapsed = false;
      state.limits.changed();
      note_resumed(state, path);
      events.push_back(resumed_event(event_subject(state, workload), true));
      continue;
    }
    // No snapshot has been built yet, and no driver lists them.
    const auto processes = own_processes(workload, pids);
    if (!processes) continue;
    state.suspension.restore(path, *processes, owned->held_by_person);
    if (owned->guarantee_lapsed) continue;
    events.push_back(
        suspended_event(event_subject(state, workload), sum(workload.used)));  // it left while no daemon ran
    state.residency_changes.suspended.push_back(path);
    set_guarantee_lapsed(state, workload, *owned, true, events);
  }
  for (const Suspension::Change& change : state.suspension.update(state.now_ns)) {
    const auto found = state.registry.workloads().find(change.id);
    OwnedWorkload* owned = state.limits.find(change.id);
    if (found == state.registry.workloads().end() || owned == nullptr) continue;
    const Workload& workload = found->second;
    const EventSubject who = event_subject(state, workload);
    Event event;
    switch (change.what) {
      case What::kSuspended:
        event = suspended_event(who, sum(workload.used));
        state.residency_changes.suspended.push_back(change.id);
        set_guarantee_lapsed(state, workload, *owned, true, events);
        break;
      case What::kNotSuspended:
        event = not_suspended_event(who, *change.error);
        owned->suspended = owned->held_by_person = false;
        state.limits.changed();
        state.running[change.id].suspension_failed_ns = state.now_ns;
        break;
      case What::kRequestsResume:
        if (state.running[change.id].may_resume) continue;  // an earlier request was granted
        state.residency_changes.resume_requests.push_back({change.id, change.reason, change.confirmed});
        event = resuming_event(who, change.reason);
        break;
      case What::kResumed:
        event = resumed_event(who);
        owned->suspended = owned->held_by_person = false;
        state.limits.changed();
        note_resumed(state, change.id);
        state.running[change.id].activity.since_ns = state.now_ns;
        break;
      case What::kNotResumed:
        event = not_resumed_event(who, *change.error);
        state.residency_changes.suspended.push_back(change.id);
        set_guarantee_lapsed(state, workload, *owned, true, events);
        break;
    }
    events.push_back(std::move(event));
  }
}

}  // namespace

std::unique_ptr<Rule> suspension_rule() { return std::make_unique<SuspensionRule>(); }

}  // namespace ration::node
