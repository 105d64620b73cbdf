// Reports workloads that started or ended since the last tick, and unreadable books. Runs before the snapshot.
#include <algorithm>
#include <memory>

#include "book/container_books.hpp"
#include "node/events/workload_events.hpp"
#include "node/rules.hpp"

namespace ration::node {

namespace {

/// Longest time from a workload's end to the sample with its last denials, with room to spare: an event recorded twice
/// counts once.
constexpr history::TimeMs kStoredWithin = 60'000;

/// Returns true if the history may lack the workload's end, because no daemon ran or it was killed before it stored
/// that. Workloads that ended before the first daemon do not count.
bool is_unrecorded(const NodeState& state, const book::BookSnapshot& book) {
  if (book.created_ns >= state.first_tick_ns) return true;
  const history::TimeMs seen_alive = history::to_ms(std::max(book.created_ns, book.ended_ns));
  return state.options.recorded_to != 0 && seen_alive + kStoredWithin >= state.options.recorded_to;
}

void report_ended(NodeState& state, const Workload& workload, Events& events) {
  const bool known = state.limits.find(workload.path) != nullptr;
  if (!workload.granted.empty()) book::retire(workload.path);
  if (!known) {
    if (!is_unrecorded(state, workload.book)) return state.forget(workload);
    report_started(state, workload, events);  // it started and ended between two ticks
  }
  report_denials(state, workload, events);
  report_limit_moves(state, workload, events);
  state.forget(workload);
  Bytes peak;
  for (const auto& account : workload.book.accounts) peak = std::max(peak, account.peak);
  const std::uint64_t ended = workload.book.ended_ns != 0 ? workload.book.ended_ns : state.time_of_day_ns;
  const bool reported = workload.book.ended_ns != 0;
  Event event = ended_event(event_subject(state, workload),
                            reported ? std::optional<int>(workload.book.exit_status) : std::nullopt, peak);
  event.time = history::to_ms(ended);
  report(state, workload, std::move(event), events);
  state.ended_workloads.push_back(workload);
  state.ended_runs.push_back({history::run_key(workload.book.run_number, workload.book.created_ns),
                              history::to_ms(ended), reported ? workload.book.exit_status : -1});
}

class LifecycleRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

void LifecycleRule::run(NodeState& state, Events& events) {
  for (const std::string& path : state.changes.started) {
    const auto running = state.registry.workloads().find(path);
    if (running == state.registry.workloads().end()) continue;  // it has ended
    if (!state.limits.add(running->second)) continue;
    report_started(state, running->second, events);
    state.running[path].guarantee_unchecked = true;
  }
  for (const Workload& workload : state.changes.ended) report_ended(state, workload, events);
  for (const Workload& workload : state.changes.handed_over) state.forget(workload);
  for (const Damaged& damaged : state.changes.damaged)
    events.push_back(book_unreadable_event({"", "", damaged.user, {}}, damaged.text));
  for (const std::string& book : state.changes.abandoned) book::retire(book);
}

}  // namespace

std::unique_ptr<Rule> lifecycle_rule() { return std::make_unique<LifecycleRule>(); }

}  // namespace ration::node
