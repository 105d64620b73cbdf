#include "node/residency/suspension.hpp"

#include <algorithm>
#include <utility>

namespace ration::node {
namespace {

// Distinguishes work from periodic timers: twice what it did while it rested, and a fifth of a millisecond, which is
// less than an interpreter takes to run one line.
constexpr double kWorkOverRest = 2, kMinWorkNs = 200'000;
constexpr double kNsPerSecond = 1e9;
// A thread that was put on a processor so often while it rested ticks; one that then misses so many ticks, for at least
// so many seconds, has fallen silent. Of whom a needless return tells that it ticks, once is enough; but a timer so
// slow that its silence says nothing for longer than that is not told from work.
constexpr std::uint64_t kTicks = 4;
constexpr double kTicksMissed = 8, kMinSilence = 1, kMaxLearntSilence = 30;
constexpr std::uint64_t kUnknownRestNs = 10'000'000'000;

double seconds_between(std::uint64_t then_ns, std::uint64_t now_ns) {
  return static_cast<double>(now_ns - std::min(now_ns, then_ns)) / kNsPerSecond;
}

}  // namespace

void Suspension::watch(const std::string& id, const std::vector<ProcessIdentity>& processes, std::uint64_t now_ns) {
  if (resting_.count(id) == 0) resting_[id] = {machine::activity_of(processes), now_ns};
}

bool Suspension::suspend(const std::string& id, const std::vector<ProcessIdentity>& processes, bool held,
                         std::uint64_t now_ns) {
  if (workloads_.count(id) != 0) return false;
  Workload& workload = workloads_[id];
  workload.state = State::kLeaving;
  workload.processes = processes;
  workload.held = held;
  workload.last = machine::activity_of(processes);
  workload.last_ns = workload.left_ns = now_ns;
  Habits& habits = habits_[id];
  if (const auto rest = resting_.find(id); rest != resting_.end() && now_ns > rest->second.since_ns) {
    const double seconds = seconds_between(rest->second.since_ns, now_ns);
    const machine::ThreadActivity done = machine::activity_between(rest->second.first, workload.last, {});
    workload.resting_ns = static_cast<double>(done.processor_ns) / seconds;
    for (const auto& [thread, now] : workload.last) {
      const auto before = rest->second.first.find(thread);
      if (before == rest->second.first.end()) workload.made_threads = true;
      const std::uint64_t turns = now.turns - (before == rest->second.first.end() ? 0 : before->second.turns);
      if (turns == 0) continue;
      const double silence = std::max(kMinSilence, kTicksMissed * seconds / static_cast<double>(turns));
      if (turns >= kTicks) workload.ticking[thread] = silence;
      if (habits.stirred.count(thread) != 0 && silence <= kMaxLearntSilence)
        habits.ticking[thread] = std::max(habits.ticking[thread], silence);
    }
  }
  habits.stirred.clear();
  workload.ticking.insert(habits.ticking.begin(), habits.ticking.end());
  resting_.erase(id);
  jobs_->start(id, machine::CheckpointAction::kSuspend, processes);
  return true;
}

bool Suspension::ask(const std::string& id, const std::string& because) {
  const auto found = workloads_.find(id);
  if (found == workloads_.end() || found->second.state == State::kReturning) return false;
  found->second.asked = because;  // told at the next tick
  return true;
}

bool Suspension::resume(const std::string& id) {
  const auto found = workloads_.find(id);
  if (found == workloads_.end() || found->second.state != State::kAsking) return false;
  found->second.state = State::kReturning;
  if (!found->second.sure) habits_[id].stirred = found->second.stirred;
  found->second.stirred.clear();
  jobs_->start(id, machine::CheckpointAction::kResume, found->second.processes);
  return true;
}

void Suspension::adopt(const std::string& id, const std::vector<ProcessIdentity>& processes, bool held) {
  Workload& workload = workloads_[id];
  workload.state = State::kAway;
  workload.processes = processes;
  workload.held = held;
  if (!held) workload.asked = "whether it worked meanwhile is not known";
}

void Suspension::forget(const std::string& id) {
  resting_.erase(id);
  habits_.erase(id);
  workloads_.erase(id);
}

Suspension::State Suspension::state_of(const std::string& id) const {
  const auto found = workloads_.find(id);
  return found == workloads_.end() ? State::kHere : found->second.state;
}

bool Suspension::is_away(const std::string& id) const {
  const State state = state_of(id);
  return state == State::kAway || state == State::kAsking || state == State::kReturning;
}

bool Suspension::anything_moves() const {
  return std::any_of(workloads_.begin(), workloads_.end(), [](const auto& each) {
    return each.second.state == State::kLeaving || each.second.state == State::kReturning;
  });
}

bool Suspension::may_ask(const Workload& workload) {
  return workload.state == State::kAway || (workload.state == State::kAsking && !workload.sure);
}

bool Suspension::anybody_may_ask() const {
  return std::any_of(workloads_.begin(), workloads_.end(),
                     [](const auto& each) { return may_ask(each.second) && !each.second.held; });
}

bool Suspension::works(Workload& workload, std::uint64_t now_ns) {
  machine::ProcessActivity now = machine::activity_of(workload.processes);
  const machine::ThreadActivity done = machine::activity_between(workload.last, now, workload.driver_threads);
  const double seconds = seconds_between(workload.last_ns, now_ns);
  bool works =
      static_cast<double>(done.processor_ns) > kWorkOverRest * workload.resting_ns.value_or(0) * seconds + kMinWorkNs;
  // How it rests was not seen: then its silence says nothing, and it is brought back to be watched.
  if (!workload.resting_ns) works = works || now_ns >= workload.left_ns + kUnknownRestNs;
  for (const auto& [thread, activity] : now) {
    if (!workload.resting_ns || workload.driver_threads.count(thread) != 0) continue;
    const auto before = workload.last.find(thread);
    const machine::ThreadActivity then = before == workload.last.end() ? machine::ThreadActivity{} : before->second;
    const auto ticks = workload.ticking.find(thread);
    // One that was running when it was read, and was stopped by a call right after, has had no other turn.
    if (activity.turns > then.turns || activity.processor_ns > then.processor_ns) {
      workload.last_stirred[thread] = now_ns;
      const bool known = before != workload.last.end() || !workload.made_threads;
      if (known && ticks == workload.ticking.end()) workload.stirred.insert(thread);
    } else if (ticks != workload.ticking.end()) {
      const std::uint64_t since = std::max(workload.last_stirred[thread], workload.left_ns);
      works = works || seconds_between(since, now_ns) >= ticks->second;
    }
  }
  workload.last = std::move(now);
  workload.last_ns = now_ns;
  return works;
}

std::vector<Suspension::Change> Suspension::update(std::uint64_t now_ns) {
  using What = Change::What;
  std::vector<Change> changes;
  for (CheckpointJobs::Finished& job : jobs_->take_finished()) {
    const auto found = workloads_.find(job.id);
    if (found == workloads_.end()) continue;  // it ended meanwhile
    Workload& workload = found->second;
    const bool suspended = job.action == machine::CheckpointAction::kSuspend;
    std::optional<Error> error;
    if (!job.outcome) error = job.outcome.error();
    if (suspended && !error) {
      workload.state = State::kAway;
      // A driver that names the program's first thread would hide the program itself.
      for (const std::int32_t thread : job.outcome->driver_threads)
        if (std::none_of(workload.processes.begin(), workload.processes.end(),
                         [&](const ProcessIdentity& process) { return process.pid == thread; }))
          workload.driver_threads.insert(thread);
    } else if (!suspended && error) {
      workload.state = State::kAway;
      // Of whom the driver has given up it says so each time: only a person asks again.
      if (error->id == "E1545")
        workload.held = true;
      else
        workload.asked = "it could not be brought back before";
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
    if (!may_ask(workload)) continue;
    // Read what its threads did from before it left: who asked while it was leaving is blocked by now, and silent.
    const bool sure = (!workload.held && works(workload, now_ns)) || !workload.asked.empty();
    if (!sure && (workload.state == State::kAsking || workload.stirred.empty())) continue;
    if (workload.asked.empty())
      workload.asked = sure ? "its program works again" : "one of its threads stirred, so it may work again";
    changes.push_back({id, What::kAsks, std::nullopt, std::exchange(workload.asked, {}), sure});
    workload.state = State::kAsking;
    workload.sure = sure;
  }
  return changes;
}

}  // namespace ration::node
