#include "node/residency/suspension.hpp"

#include <algorithm>
#include <utility>

#include "base/say.hpp"

namespace ration::node {
namespace {

// A workload works if it uses more than twice its processor time at rest, plus 0.2 ms. An interpreter needs more than
// 0.2 ms for one line.
constexpr double kWorkOverRest = 2, kMinWorkNs = 200'000;
constexpr double kNsPerSecond = 1e9;
// A thread scheduled at least kTimerTurns times at rest is a timer; after kTurnsMissed missed turns and kMinSilence
// seconds it counts as silent. One needless resume is enough to classify a thread as a timer. The exception is a timer
// so slow that even kMaxLearntSilence seconds of silence prove nothing: it cannot be distinguished from work.
constexpr std::uint64_t kTimerTurns = 4;
constexpr double kTurnsMissed = 8, kMinSilence = 1, kMaxLearntSilence = 30;
constexpr std::uint64_t kUnknownRestNs = 10'000'000'000;

double seconds_between(std::uint64_t then_ns, std::uint64_t now_ns) {
  return static_cast<double>(now_ns - std::min(now_ns, then_ns)) / kNsPerSecond;
}

}  // namespace

void Suspension::observe_rest(const std::string& id, const std::vector<ProcessIdentity>& processes,
                              std::uint64_t now_ns) {
  if (resting_.count(id) == 0) resting_[id] = {machine::activity_of(processes), now_ns};
}

bool Suspension::suspend(const std::string& id, const std::vector<ProcessIdentity>& processes, bool by_person,
                         std::uint64_t now_ns) {
  if (workloads_.count(id) != 0) return false;
  Workload& workload = workloads_[id];
  workload.state = State::kSuspending;
  workload.processes = processes;
  workload.by_person = by_person;
  workload.last = machine::activity_of(processes);
  workload.last_ns = workload.suspended_ns = now_ns;
  Habits& habits = habits_[id];
  if (const auto rest = resting_.find(id); rest != resting_.end() && now_ns > rest->second.since_ns) {
    const double seconds = seconds_between(rest->second.since_ns, now_ns);
    const machine::ThreadActivity done = machine::activity_between(rest->second.first, workload.last, {});
    workload.rate_at_rest = static_cast<double>(done.processor_ns) / seconds;
    for (const auto& [thread, now] : workload.last) {
      const auto before = rest->second.first.find(thread);
      if (before == rest->second.first.end()) workload.has_new_threads = true;
      const std::uint64_t turns = now.turns - (before == rest->second.first.end() ? 0 : before->second.turns);
      if (turns == 0) continue;
      const double silence = std::max(kMinSilence, kTurnsMissed * seconds / static_cast<double>(turns));
      if (turns >= kTimerTurns) workload.timers[thread] = silence;
      if (habits.woken.count(thread) != 0 && silence <= kMaxLearntSilence)
        habits.timers[thread] = std::max(habits.timers[thread], silence);
    }
  }
  habits.woken.clear();
  workload.timers.insert(habits.timers.begin(), habits.timers.end());
  resting_.erase(id);
  jobs_->start(id, machine::CheckpointAction::kSuspend, processes);
  return true;
}

bool Suspension::request_resume(const std::string& id, const Message& reason) {
  const auto found = workloads_.find(id);
  if (found == workloads_.end() || found->second.state == State::kResuming) return false;
  found->second.request_reason = reason;  // reported at the next tick
  return true;
}

bool Suspension::resume(const std::string& id) {
  const auto found = workloads_.find(id);
  if (found == workloads_.end() || found->second.state != State::kRequesting) return false;
  found->second.state = State::kResuming;
  if (!found->second.confirmed) habits_[id].woken = found->second.woken;
  found->second.woken.clear();
  jobs_->start(id, machine::CheckpointAction::kResume, found->second.processes);
  return true;
}

void Suspension::restore(const std::string& id, const std::vector<ProcessIdentity>& processes, bool by_person) {
  Workload& workload = workloads_[id];
  workload.state = State::kSuspended;
  workload.processes = processes;
  workload.by_person = by_person;
  if (!by_person) workload.request_reason = say<"resumption.unwatched">();
}

void Suspension::forget(const std::string& id) {
  resting_.erase(id);
  habits_.erase(id);
  workloads_.erase(id);
}

Suspension::State Suspension::state_of(const std::string& id) const {
  const auto found = workloads_.find(id);
  return found == workloads_.end() ? State::kOnDevice : found->second.state;
}

bool Suspension::is_suspended(const std::string& id) const {
  const State state = state_of(id);
  return state == State::kSuspended || state == State::kRequesting || state == State::kResuming;
}

bool Suspension::is_moving() const {
  return std::any_of(workloads_.begin(), workloads_.end(), [](const auto& each) {
    return each.second.state == State::kSuspending || each.second.state == State::kResuming;
  });
}

bool Suspension::may_request(const Workload& workload) {
  return workload.state == State::kSuspended || (workload.state == State::kRequesting && !workload.confirmed);
}

bool Suspension::may_request_resume() const {
  return std::any_of(workloads_.begin(), workloads_.end(),
                     [](const auto& each) { return may_request(each.second) && !each.second.by_person; });
}

bool Suspension::is_working(Workload& workload, std::uint64_t now_ns) {
  machine::ProcessActivity now = machine::activity_of(workload.processes);
  const machine::ThreadActivity done = machine::activity_between(workload.last, now, workload.driver_threads);
  const double seconds = seconds_between(workload.last_ns, now_ns);
  bool working =
      static_cast<double>(done.processor_ns) > kWorkOverRest * workload.rate_at_rest.value_or(0) * seconds + kMinWorkNs;
  // Without an observation at rest, silence proves nothing: the workload resumes in order to be observed.
  if (!workload.rate_at_rest) working = working || now_ns >= workload.suspended_ns + kUnknownRestNs;
  for (const auto& [thread, activity] : now) {
    if (!workload.rate_at_rest || workload.driver_threads.count(thread) != 0) continue;
    const auto before = workload.last.find(thread);
    const machine::ThreadActivity then = before == workload.last.end() ? machine::ThreadActivity{} : before->second;
    const auto timer = workload.timers.find(thread);
    // A thread that a driver call blocked while it ran has used processor time since the last reading, but had no
    // further turn.
    if (activity.turns > then.turns || activity.processor_ns > then.processor_ns) {
      workload.last_woken[thread] = now_ns;
      const bool known = before != workload.last.end() || !workload.has_new_threads;
      if (known && timer == workload.timers.end()) workload.woken.insert(thread);
    } else if (timer != workload.timers.end()) {
      const std::uint64_t since = std::max(workload.last_woken[thread], workload.suspended_ns);
      working = working || seconds_between(since, now_ns) >= timer->second;
    }
  }
  workload.last = std::move(now);
  workload.last_ns = now_ns;
  return working;
}

std::vector<Suspension::Change> Suspension::update(std::uint64_t now_ns) {
  using What = Change::What;
  std::vector<Change> changes;
  for (CheckpointJobs::Finished& job : jobs_->take_finished()) {
    const auto found = workloads_.find(job.id);
    if (found == workloads_.end()) continue;  // it has ended
    Workload& workload = found->second;
    const bool suspended = job.action == machine::CheckpointAction::kSuspend;
    std::optional<Error> error;
    if (!job.outcome) error = job.outcome.error();
    if (suspended && !error) {
      workload.state = State::kSuspended;
      // Does not ignore a program's first thread, even if the driver reports that it works there: ignoring that thread
      // would hide the whole program.
      for (const std::int32_t thread : job.outcome->driver_threads)
        if (std::none_of(workload.processes.begin(), workload.processes.end(),
                         [&](const ProcessIdentity& process) { return process.pid == thread; }))
          workload.driver_threads.insert(thread);
    } else if (!suspended && error) {
      workload.state = State::kSuspended;
      // E1545 is permanent: retry only when an operator asks.
      if (error->id == "E1545")
        workload.by_person = true;
      else
        workload.request_reason = say<"resumption.again">();
    } else {
      workloads_.erase(found);
    }
    changes.push_back({job.id,
                       suspended ? error ? What::kNotSuspended : What::kSuspended
                       : error   ? What::kNotResumed
                                 : What::kResumed,
                       error,
                       {}});
  }
  for (auto& [id, workload] : workloads_) {
    if (!may_request(workload)) continue;
    // Counts activity from before the suspension on, because a thread that made a driver call during the suspension is
    // blocked and silent by now.
    const bool confirmed = (!workload.by_person && is_working(workload, now_ns)) || !workload.request_reason.empty();
    if (!confirmed && (workload.state == State::kRequesting || workload.woken.empty())) continue;
    if (workload.request_reason.empty())
      workload.request_reason = confirmed ? say<"resumption.works">() : say<"resumption.stirred">();
    changes.push_back({id, What::kRequestsResume, std::nullopt, std::exchange(workload.request_reason, {}), confirmed});
    workload.state = State::kRequesting;
    workload.confirmed = confirmed;
  }
  return changes;
}

}  // namespace ration::node
