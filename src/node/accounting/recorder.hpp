// Records samples and events of each tick in the history and the counters.
// Promises: a storage problem is reported once and shown until it ends; what cannot be stored now is stored later. Only
// report_damage() is thread-safe.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "history/history.hpp"
#include "node/accounting/counters.hpp"
#include "node/accounting/sampler.hpp"
#include "node/events/event_flood.hpp"
#include "node/tick/effects.hpp"

namespace ration::node {

class Recorder {
 public:
  explicit Recorder(history::History history) : history_(std::move(history)) { counters_.started_ns = unix_time_ns(); }

  /// Takes a tick's sample and the runs that ended in that tick; commit() stores both. Returns events about a gap, a
  /// clock that was set back, or a storage problem.
  [[nodiscard]] Events take(const Moment& moment, const Effects& effects);
  /// Returns true if usage differs between the latest two samples.
  [[nodiscard]] bool changed() const { return changed_; }
  void note_tick(double seconds);

  /// Numbers and stores the events that the flood limit lets through, and returns them. An event that cannot
  /// be stored yet gets its number when it is stored later.
  [[nodiscard]] std::vector<history::Event> store(Events events);
  /// Returns the events that store() could not store at first, and that have been stored since the last call.
  [[nodiscard]] std::vector<history::Event> take_late() { return history_.take_late(); }
  /// Stores the samples; called once a second. Returns events about a file that was removed, replaced or set aside.
  [[nodiscard]] Events commit();

  /// Reports that a reader found the file damaged, so that the next commit() checks the file. Any thread may call this
  /// function.
  void report_damage() { damaged_ = true; }

  struct Status {
    history::TimeMs recorded_to = 0;
    Message problem;    ///< current problem of storing; empty if there is none
    Message set_aside;  ///< latest notice of a file that was removed, replaced or set aside
  };
  [[nodiscard]] Status status() const;
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] history::History& history() { return history_; }

 private:
  [[nodiscard]] Events record(const history::Sample& sample);

  history::History history_;
  history::Sample latest_;
  std::int64_t recorded_ns_ = history_.committed_to() * 1'000'000;  // time of the latest recorded sample
  bool changed_ = false;
  EventFlood flood_;
  Counters counters_;
  Message problem_, sample_problem_, set_aside_;
  bool clock_is_back_ = false;
  std::atomic<bool> damaged_{false};
};

}  // namespace ration::node
