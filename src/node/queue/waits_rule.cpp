// Reports requests for memory that had to wait for room and got it. Runs before the snapshot.
#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "base/process.hpp"
#include "node/limits/limit_events.hpp"
#include "node/queue/queue_rules.hpp"

namespace ration::node {

namespace {

constexpr std::uint64_t kMinReportedWait = 50 * kMillisecond;  // shorter waits go unnoticed

/// Returns the shortest time between two reports. It is longer for short waits, which are frequent where programs share
/// a GPU.
std::uint64_t report_interval(std::uint64_t wait_ns) { return wait_ns < kSecond ? 60 * kSecond : 10 * kSecond; }

/// Adds the processes of the book that wait now to `waiting`. Returns false if a process in `waiting` has ended.
bool follow(std::vector<ProcessIdentity>& waiting, const book::BookSnapshot& book) {
  const auto same = [](const ProcessIdentity& one) { return [&](const auto& other) { return other.same_as(one); }; };
  const auto lives = [&](const ProcessIdentity& one) {
    return std::any_of(book.processes.begin(), book.processes.end(),
                       [&](const book::ProcessSnapshot& process) { return process.identity.same_as(one); });
  };
  if (!std::all_of(waiting.begin(), waiting.end(), lives)) return false;
  for (const book::ProcessSnapshot& process : book.processes)
    if (process.waiting > 0 && std::none_of(waiting.begin(), waiting.end(), same(process.identity)))
      waiting.push_back(process.identity);
  return true;
}

class WaitRule final : public Rule {
 public:
  explicit WaitRule(LimitMoves& moves) : moves_(moves) {}
  void run(const Moment& moment, Effects& effects) override;
  void forget(const std::string& path) override;

 private:
  struct Wait {
    std::uint64_t since_ns = 0, denials = 0, granted = 0;  // counters at the start of the wait
    std::uint32_t account = 0, waiting = 0;                // `waiting` is the most requests at once
    Bytes wanted, used, limit;
    std::vector<ProcessIdentity> processes;  // processes seen waiting
  };
  struct ReportedWaits {
    std::uint64_t last_ns = 0;  // time of the last report; 0 before the first
    std::int64_t count = 0;     // waits since the last report
    std::uint64_t first_ns = 0;
  };
  LimitMoves& moves_;
  std::unordered_map<std::string, ReportedWaits> reported_;  // by path of the book
  std::unordered_map<std::string, Wait> waits_;              // by path, for workloads with waiting requests
};

// Reports waits that last from one tick to the next and end when the memory is granted. The book itself records waits
// that end in a denial.
void WaitRule::run(const Moment& moment, Effects& effects) {
  Events& events = effects.events;
  for (const auto& [path, workload] : moment.registry.workloads()) {
    auto known = waits_.find(path);
    if (known != waits_.end() && !follow(known->second.processes, workload.book)) {
      waits_.erase(known);
      known = waits_.end();
    }
    if (workload.book.waiting > 0) {
      if (known != waits_.end()) {
        known->second.waiting = std::max(known->second.waiting, workload.book.waiting);
        continue;
      }
      const auto& wanted = workload.book.wanted;
      const auto most = static_cast<std::uint32_t>(std::max_element(wanted.begin(), wanted.end()) - wanted.begin());
      if (most >= workload.book.accounts.size()) continue;
      waits_[path] = {
          moment.now_ns, workload.book.denial_count, workload.book.granted_waits,        most, workload.book.waiting,
          wanted[most],  workload.used[most],        workload.book.accounts[most].limit, {}};
      (void)follow(waits_[path].processes, workload.book);
    } else if (known != waits_.end()) {
      const Wait wait = known->second;
      waits_.erase(known);
      // Skips a wait that was denied, ended without memory, or was too short to notice.
      const std::uint64_t length = moment.now_ns - std::min(moment.now_ns, wait.since_ns);
      if (workload.book.denial_count != wait.denials || workload.book.granted_waits < wait.granted + wait.waiting ||
          length < kMinReportedWait)
        continue;
      ReportedWaits& reported = reported_[path];  // this bounds the reports that a false book can cause
      if (reported.count++ == 0) reported.first_ns = wait.since_ns;
      if (reported.last_ns != 0 && moment.now_ns < reported.last_ns + report_interval(length)) continue;
      report_limit_moves(moment, moves_, workload, events);
      events.push_back(waited_event(event_subject(moment, workload, workload.book.accounts[wait.account].device),
                                    {length, wait.wanted, wait.used, wait.limit, reported.count,
                                     moment.now_ns - std::min(moment.now_ns, reported.first_ns)}));
      events.back().first_time = history::to_ms(moment.time_of_day_at(reported.first_ns));
      reported = {moment.now_ns, 0, 0};
    }
  }
}

void WaitRule::forget(const std::string& path) {
  waits_.erase(path);
  reported_.erase(path);
}

}  // namespace

std::unique_ptr<Rule> wait_rule(LimitMoves& moves) { return std::make_unique<WaitRule>(moves); }

}  // namespace ration::node
