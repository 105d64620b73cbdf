// The daemon's record of the past: what was held, charged, denied and changed, in one SQLite file, of which this is the
// only writer. Used by the daemon's main loop; queries go through Reader (reader.hpp), which may live on another
// thread.
//
// Promises, each with a test:
//  - Killed at any moment, nothing is counted twice and nothing is lost but what was recorded since the last commit();
//    a daemon that is back within `longest_step` goes on with the last committed values, else the stretch is a gap.
//  - For every device and any stretch it was watched: held by runs + ungoverned + the driver's own + idle + gap
//    = capacity × time, in whole byte-milliseconds.
//  - The number of an event is never used again, and an event is stored when append() returns, or as soon as the disk
//    has room again.
//  - A damaged file is set aside (PATH.damaged-TIME) and a new one begun, and so it is where somebody removed the file:
//    in the new one, watching began there. A file of a newer ration is left alone (E1911).
// Not promised: that the last second before a power cut is there (SQLite in write-ahead mode without a sync per
// commit). Not thread-safe: one thread owns it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "history/event_log.hpp"
#include "history/history_file.hpp"
#include "history/integrator.hpp"
#include "history/names.hpp"
#include "history/readings.hpp"
#include "history/sample.hpp"
#include "history/upkeep.hpp"

namespace ration::history {

struct Options {
  /// A longer time between two samples is a gap; usually three sample intervals.
  TimeMs longest_step = 3 * 500;
  /// Keeps points for charts; reports need none.
  bool charts = true;
};

struct ClosedPeriod {
  std::string name;
  TimeMs closed = 0;
  /// SHA-256 of `lines`, in hexadecimal.
  std::string seal;
  /// One JSON array a line, sorted: the month's amounts by run and device. Kept for ever, whatever is pruned.
  std::string lines;
  /// True if the lines still match the seal.
  bool intact = false;
};

class History {
 public:
  /// Creates or opens the file; only its owner may read it. E1911 (newer), E1912 (not usable), E1913 (in use by another
  /// daemon).
  [[nodiscard]] static Result<History> open(const std::string& path, const Options& options = {});

  /// Takes a sample into memory; commit() stores it. E1918 for an impossible sample, which changes nothing.
  [[nodiscard]] Result<Recorded> record(const Sample& sample);

  /// Stores everything since the last commit in one transaction; after an error it is kept for the next try. Then
  /// stores the events that append() could not store.
  [[nodiscard]] Result<void> commit();

  /// Returns the instant up to which everything is counted and committed.
  [[nodiscard]] TimeMs committed_to() const noexcept { return committed_to_; }

  /// Stores events at once and gives them their numbers. After an error they have none, and are kept for the next
  /// append() or commit() that succeeds: before newer ones, with their times. If there are too many the newest are
  /// dropped; one event reports how many.
  [[nodiscard]] Result<void> append(std::vector<Event>& events);
  /// Returns the events that were stored late since the last call, with their numbers.
  [[nodiscard]] std::vector<Event> take_late() { return events_.take_late(); }
  [[nodiscard]] Result<std::int64_t> append(Event event);

  /// Records the end of a run with the next commit. Ignored for a run that no sample has shown.
  void run_ended(const RunKey& run, TimeMs ended, int exit_code) { names_.run_ended(run, ended, exit_code); }

  /// Seals a month (`2026-01`, UTC). E1914: not a month, not over, or not recorded; E1915: closed already.
  [[nodiscard]] Result<ClosedPeriod> close_period(const std::string& name, TimeMs now);

  /// Reads the whole file and, if it contradicts itself, sets it aside and returns false. For a Reader that met damage.
  [[nodiscard]] bool check();
  /// Returns true if the path still leads to the open file; otherwise the next commit() begins a new one.
  [[nodiscard]] bool in_place() const { return file_.in_place(); }

  /// Sets Options::longest_step from the next sample on.
  void set_longest_step(TimeMs step) { integrator_.set_longest_step(step); }

  /// Returns notices about the file (set aside, and where to) since the last call.
  [[nodiscard]] std::vector<Message> take_notices() { return file_.take_notices(); }

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

 private:
  History(HistoryFile file, const Options& options)
      : file_(std::move(file)), integrator_(options.longest_step, options.charts) {}

  [[nodiscard]] Result<void> load();
  [[nodiscard]] Result<void> begin_anew();
  /// Runs the transaction, again in a new file if this one turns out to be damaged.
  [[nodiscard]] Result<void> transaction(const std::function<void()>& write);
  [[nodiscard]] Result<void> store(std::vector<Event>& events);

  HistoryFile file_;
  Names names_;
  Readings readings_;
  Integrator integrator_;
  EventLog events_;
  Upkeep upkeep_;
  TimeMs committed_to_ = 0;
};

}  // namespace ration::history
