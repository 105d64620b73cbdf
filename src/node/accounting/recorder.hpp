// Writes the past of the node: a sample of every tick and every event go into the history, and into the counters.
// Used by the daemon. Promises: a problem of storing is told once, and shown until it is over; what cannot be stored
// now is stored later. Not thread-safe but for report_damage().
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "history/history.hpp"
#include "node/accounting/counters.hpp"
#include "node/accounting/sampler.hpp"
#include "node/events/event_flood.hpp"

namespace ration::node {

class Recorder {
 public:
  explicit Recorder(history::History history) : history_(std::move(history)) { counters_.started_ns = unix_time_ns(); }

  /// After a tick: what is held now, and which runs ended. Returns what is to be told of that; commit() stores it.
  [[nodiscard]] Events take(NodeState& state);
  /// Whether the latest two samples differ in what workloads hold.
  [[nodiscard]] bool changed() const { return changed_; }
  void note_tick(double seconds);

  /// Stores what the flood lets through at once. Those without a number are stored later.
  [[nodiscard]] std::vector<history::Event> store(Events events);
  /// Those that were stored late, since the last call.
  [[nodiscard]] std::vector<history::Event> take_late() { return history_.take_late(); }
  /// Once a second. Returns what became of the file, where anything did.
  [[nodiscard]] Events commit();

  /// A reader found the file damaged: the next commit() checks it. From any thread.
  void report_damage() { damaged_ = true; }

  struct Status {
    history::TimeMs recorded_to = 0;
    std::string problem;    ///< of storing, or of what was seen; empty: none
    std::string set_aside;  ///< what became of a damaged file; empty: there was none
  };
  [[nodiscard]] Status status() const;
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] history::History& history() { return history_; }

 private:
  [[nodiscard]] Events record(const history::Sample& sample);

  history::History history_;
  history::Sample latest_;
  std::int64_t recorded_ns_ = history_.committed_to() * 1'000'000;  // time of the latest sample that is recorded
  bool changed_ = false;
  EventFlood flood_;
  Counters counters_;
  std::string problem_, sample_problem_, set_aside_;
  bool clock_is_back_ = false;
  std::atomic<bool> damaged_{false};
};

}  // namespace ration::node
