// Warns of ungoverned processes, or ends them after a grace period, as the configuration says.
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <memory>

#include "base/file.hpp"
#include "node/watch/watch_rules.hpp"

namespace ration::node {

namespace {

/// The time between SIGTERM and SIGKILL.
constexpr std::uint64_t kKillDelay = 5'000'000'000;

class UngovernedPolicyRule final : public Rule {
 public:
  void run(const Moment& moment, Effects& effects) override;

 private:
  struct Process {
    FileDescriptor handle;   // pidfd; empty if it cannot be opened
    bool is_to_end = false;  // by the rule in force at the last tick
    std::uint64_t told_ns = 0, signalled_ns = 0;
    bool killed = false;
  };
  std::map<std::int32_t, Process> processes_;  // by pid
};

// Opens the pidfd when it first sees a process, so that it never signals a later process with the same pid.
void UngovernedPolicyRule::run(const Moment& moment, Effects& effects) {
  const config::Ungoverned rule = moment.configuration.defaults.ungoverned.value;
  if (rule == config::Ungoverned::kReport) {
    processes_.clear();
    return;
  }
  const bool ends = rule == config::Ungoverned::kTerminate;
  const auto grace = static_cast<std::uint64_t>(moment.configuration.defaults.grace.value.count());
  std::map<std::int32_t, Process> present;
  for (const UngovernedView& view : moment.snapshot.ungoverned) {
    const std::int32_t pid = view.process.pid;
    if (present.count(pid) != 0) continue;
    auto known = processes_.find(pid);
    const bool fresh = known == processes_.end();
    Process process = fresh ? Process{} : std::move(known->second);
    if (fresh) process.handle = FileDescriptor{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
    if (fresh) {  // waits for the second tick, as the rule that reports such processes does
      present.emplace(pid, std::move(process));
      continue;
    }
    // A process that was warned of before the rule changed has its grace period from the change on.
    if (process.told_ns == 0 || (ends && !process.is_to_end)) {
      process.told_ns = moment.now_ns;
      effects.events.push_back(no_limit_event(view, ends ? std::optional(grace) : std::nullopt));
    } else if (ends && process.handle && moment.now_ns >= process.told_ns + grace) {
      const bool again = process.signalled_ns != 0;
      if (!again || (moment.now_ns >= process.signalled_ns + kKillDelay && !process.killed)) {
        const int signal = again ? SIGKILL : SIGTERM;
        const bool sent = ::syscall(SYS_pidfd_send_signal, process.handle.get(), signal, nullptr, 0) == 0;
        effects.events.push_back(no_limit_ended_event(view, !sent ? nullptr : again ? "SIGKILL" : "SIGTERM"));
        process.signalled_ns = moment.now_ns;
        process.killed = again || !sent;
      }
    }
    process.is_to_end = ends;
    present.emplace(pid, std::move(process));
  }
  processes_ = std::move(present);
}

}  // namespace

std::unique_ptr<Rule> ungoverned_policy_rule() { return std::make_unique<UngovernedPolicyRule>(); }

}  // namespace ration::node
