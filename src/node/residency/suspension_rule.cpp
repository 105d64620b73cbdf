// Follows suspensions and resumptions. Runs before the snapshot and after TamperRule, because it writes books.
#include "machine/checkpoint.hpp"
#include "node/residency/residency_rules.hpp"

namespace ration::node {

namespace {

class SuspensionRule final : public Rule {
 public:
  SuspensionRule(Residency& residency, Limits& limits, Activity& activity, UncheckedGuarantees& unchecked)
      : residency_(residency), limits_(limits), activity_(activity), unchecked_(unchecked) {}
  void run(const Moment& moment, Effects& effects) override;

 private:
  void restore(const Moment& moment, const Workload& workload, OwnedWorkload& owned, Effects& effects);
  void follow(const Moment& moment, const Suspension::Change& change, const Workload& workload, OwnedWorkload& owned,
              Effects& effects);
  void note_suspended(const Moment& moment, const Workload& workload, OwnedWorkload& owned, Effects& effects);

  Residency& residency_;
  Limits& limits_;
  Activity& activity_;
  UncheckedGuarantees& unchecked_;
};

void SuspensionRule::note_suspended(const Moment& moment, const Workload& workload, OwnedWorkload& owned,
                                    Effects& effects) {
  effects.residency_changes.suspended.push_back(workload.path);
  residency_.set_guarantee_lapsed(moment, workload, owned, true, effects.events);
}

// Restores the suspension of a workload after a restart of the daemon. The driver is asked where the memory is, since
// the earlier daemon may have ended during a move.
void SuspensionRule::restore(const Moment& moment, const Workload& workload, OwnedWorkload& owned, Effects& effects) {
  std::vector<ProcessIdentity> listed;
  std::vector<std::int32_t> pids;
  for (const auto& process : workload.book.processes) {
    listed.push_back(process.identity);
    pids.push_back(process.identity.pid);
  }
  if (moment.machine && machine::is_on_device(*moment.machine, listed)) {
    owned.guarantee_lapsed = false;
    residency_.end_suspension(owned);
    unchecked_.add_resumed(workload.path);
    effects.events.push_back(resumed_event(event_subject(moment, workload), true));
    return;
  }
  // Reads the processes from the book: there is no snapshot yet, and the driver does not list suspended processes.
  const auto processes = own_processes(workload, pids);
  if (!processes) return;
  residency_.suspension().restore(workload.path, *processes, owned.held_by_person);
  if (owned.guarantee_lapsed) return;
  effects.events.push_back(
      suspended_event(event_subject(moment, workload), sum(workload.used)));  // its memory moved while no daemon ran
  note_suspended(moment, workload, owned, effects);
}

void SuspensionRule::follow(const Moment& moment, const Suspension::Change& change, const Workload& workload,
                            OwnedWorkload& owned, Effects& effects) {
  using What = Suspension::Change::What;
  const EventSubject who = event_subject(moment, workload);
  Event event;
  switch (change.what) {
    case What::kSuspended:
      event = suspended_event(who, sum(workload.used));
      note_suspended(moment, workload, owned, effects);
      break;
    case What::kNotSuspended:
      event = not_suspended_event(who, *change.error);
      residency_.end_suspension(owned);
      residency_.note_failed(change.id, moment.now_ns);
      break;
    case What::kRequestsResume:
      if (residency_.may_resume(change.id)) return;  // an earlier request was granted
      effects.residency_changes.resume_requests.push_back({change.id, change.reason, change.confirmed});
      event = resuming_event(who, change.reason);
      break;
    case What::kResumed:
      event = resumed_event(who);
      residency_.end_suspension(owned);
      unchecked_.add_resumed(change.id);
      activity_.note_resumed(change.id, moment.now_ns);
      break;
    case What::kNotResumed:
      event = not_resumed_event(who, *change.error);
      note_suspended(moment, workload, owned, effects);
      break;
  }
  effects.events.push_back(std::move(event));
}

void SuspensionRule::run(const Moment& moment, Effects& effects) {
  const auto& workloads = moment.registry.workloads();
  for (const auto& [path, workload] : workloads) {
    OwnedWorkload* owned = limits_.find(path);
    if (owned != nullptr && owned->suspended && residency_.suspension().state_of(path) == Suspension::State::kOnDevice)
      restore(moment, workload, *owned, effects);
  }
  for (const Suspension::Change& change : residency_.suspension().update(moment.now_ns)) {
    const auto found = workloads.find(change.id);
    OwnedWorkload* owned = limits_.find(change.id);
    if (found != workloads.end() && owned != nullptr) follow(moment, change, found->second, *owned, effects);
  }
}

}  // namespace

std::unique_ptr<Rule> suspension_rule(Residency& residency, Limits& limits, Activity& activity,
                                      UncheckedGuarantees& unchecked) {
  return std::make_unique<SuspensionRule>(residency, limits, activity, unchecked);
}

}  // namespace ration::node
