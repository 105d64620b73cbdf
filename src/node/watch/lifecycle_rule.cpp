// Reports workloads that started or ended since the last tick, and unreadable books. Runs before the snapshot.
#include <algorithm>

#include "book/container_books.hpp"
#include "node/watch/watch_rules.hpp"

namespace ration::node {

namespace {

/// The longest time from a workload's end to the sample with its last denials. A value that is too long is harmless,
/// because an event that is recorded twice counts once.
constexpr history::TimeMs kStoredWithin = 60'000;

class LifecycleRule final : public Rule {
 public:
  LifecycleRule(LifecycleSubjects subjects, EarlierRecord earlier)
      : subjects_(subjects), earlier_(std::move(earlier)) {}
  void run(const Moment& moment, Effects& effects) override;

 private:
  [[nodiscard]] bool is_unrecorded(const Moment& moment, const book::BookSnapshot& book) const;
  void report_started(const Moment& moment, const Workload& workload, Events& events) const;
  void report_ended(const Moment& moment, const Workload& workload, Effects& effects);

  LifecycleSubjects subjects_;
  EarlierRecord earlier_;
};

/// Returns true if the history may lack the workload's end, because no daemon ran, or because a daemon was killed
/// before it stored the end. Workloads that ended before the first daemon do not count.
bool LifecycleRule::is_unrecorded(const Moment& moment, const book::BookSnapshot& book) const {
  if (book.created_ns >= moment.first_tick_ns) return true;
  const history::TimeMs seen_alive = history::to_ms(std::max(book.created_ns, book.ended_ns));
  return earlier_.recorded_to != 0 && seen_alive + kStoredWithin >= earlier_.recorded_to;
}

void LifecycleRule::report_started(const Moment& moment, const Workload& workload, Events& events) const {
  std::vector<Bytes> limits;
  for (const auto& account : workload.book.accounts) limits.push_back(account.limit);
  Event event = started_event(event_subject(moment, workload), limits);
  event.time = history::to_ms(workload.book.created_ns);
  event.pid = workload.book.creator.pid;
  earlier_.report(moment, workload, std::move(event), events);
}

void LifecycleRule::report_ended(const Moment& moment, const Workload& workload, Effects& effects) {
  effects.forgotten.push_back(workload.path);
  const bool known = subjects_.limits.find(workload.path) != nullptr;
  if (!workload.granted.empty()) book::retire(workload.path);
  if (!known) {
    if (!is_unrecorded(moment, workload.book)) return;
    report_started(moment, workload, effects.events);  // the workload started and ended between two ticks
  }
  subjects_.denials.report(moment, workload, effects.events);
  subjects_.recent_denials.note(workload, moment.now_ns, moment.time_of_day_ns);
  report_limit_moves(moment, subjects_.moves, workload, effects.events);
  Bytes peak;
  for (const auto& account : workload.book.accounts) peak = std::max(peak, account.peak);
  const std::uint64_t ended = workload.book.ended_ns != 0 ? workload.book.ended_ns : moment.time_of_day_ns;
  const bool reported = workload.book.ended_ns != 0;
  Event event = ended_event(event_subject(moment, workload),
                            reported ? std::optional<int>(workload.book.exit_status) : std::nullopt, peak);
  event.time = history::to_ms(ended);
  earlier_.report(moment, workload, std::move(event), effects.events);
  effects.ended_workloads.push_back(workload);
  effects.ended_runs.push_back({history::run_key(workload.book.run_number, workload.book.created_ns),
                                history::to_ms(ended), reported ? workload.book.exit_status : -1});
}

void LifecycleRule::run(const Moment& moment, Effects& effects) {
  for (const std::string& path : moment.changes.started) {
    const auto running = moment.registry.workloads().find(path);
    if (running == moment.registry.workloads().end()) continue;  // the workload has ended
    if (!subjects_.limits.add(running->second)) continue;
    report_started(moment, running->second, effects.events);
    subjects_.unchecked.add(path);
  }
  for (const Workload& workload : moment.changes.ended) report_ended(moment, workload, effects);
  for (const Workload& workload : moment.changes.handed_over) effects.forgotten.push_back(workload.path);
  for (const Damaged& damaged : moment.changes.damaged)
    effects.events.push_back(book_unreadable_event({"", "", damaged.user, {}}, damaged.text));
  for (const std::string& book : moment.changes.abandoned) book::retire(book);
}

}  // namespace

std::unique_ptr<Rule> lifecycle_rule(LifecycleSubjects subjects, EarlierRecord earlier) {
  return std::make_unique<LifecycleRule>(subjects, std::move(earlier));
}

}  // namespace ration::node
