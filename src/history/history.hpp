// The daemon's record of the past: what was held, charged, denied and changed, in one SQLite file that only this class
// writes. Used by the daemon's main loop; queries go through Reader (reader.hpp), which may live on another thread.
//
// Promises, each with a test:
//  - If the daemon is killed at any moment, nothing is counted twice, and only what was recorded since the last
//    commit() is lost. A daemon that returns within `longest_step` continues with the last committed values; otherwise
//    the time between is a gap.
//  - For every device and every stretch in which it was watched, governed + ungoverned + the driver's own + idle + gap
//    = capacity × time, in whole byte-milliseconds.
//  - No number of an event is used twice. An event is stored when append() returns, or as soon as the disk has room.
//  - A damaged file is set aside (PATH.damaged-TIME), and a new file is begun, in which watching begins at that time. A
//    new file is also begun if the file was removed. The file of a newer ration is not touched (E1911).
// Not promised: the last seconds before a power cut may be lost (SQLite in write-ahead mode without a sync per commit).
// Not thread-safe: one thread owns the history.
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
  /// The longest time between two samples that does not count as a gap; usually three sample intervals.
  TimeMs longest_step = 3 * 500;
  /// True to keep points for charts, which reports do not need.
  bool charts = true;
  /// The time for which use is kept (Upkeep::set_usage_kept()).
  TimeMs usage_kept = kUsageKept;
};

struct ClosedPeriod {
  std::string name;
  TimeMs closed = 0;
  /// The SHA-256 of `lines`, in hexadecimal.
  std::string seal;
  /// The month's amounts by run and device: one JSON array per line, sorted. The lines are kept for ever, even if the
  /// hours are removed.
  std::string lines;
  /// True if the lines still match the seal.
  bool intact = false;
};

class History {
 public:
  /// Creates or opens the file, which only its owner may read. Fails with E1911 if a newer ration wrote it, E1912 if it
  /// cannot be used, E1913 if another daemon has it open.
  [[nodiscard]] static Result<History> open(const std::string& path, const Options& options = {});

  /// Takes a sample into memory; commit() stores it. Fails with E1918 for an impossible sample, and then changes
  /// nothing.
  [[nodiscard]] Result<Recorded> record(const Sample& sample);

  /// Stores everything since the last commit in one transaction; after an error the next commit tries again. Then
  /// stores the events that append() could not store.
  [[nodiscard]] Result<void> commit();

  /// Returns the instant up to which everything is counted and committed.
  [[nodiscard]] TimeMs committed_to() const noexcept { return committed_to_; }

  /// Stores events at once and gives them their numbers. After an error the events have no numbers, and wait for the
  /// next successful append() or commit(), which stores them before newer events, with their times. If too many events
  /// wait, the newest are dropped, and one event reports their number.
  [[nodiscard]] Result<void> append(std::vector<Event>& events);
  /// Returns the events that had to wait and were stored since the last call, with their numbers.
  [[nodiscard]] std::vector<Event> take_late() { return events_.take_late(); }
  [[nodiscard]] Result<std::int64_t> append(Event event);

  /// Records the end of a run with the next commit. Ignores a run of which no sample is known.
  void run_ended(const RunKey& run, TimeMs ended, int exit_code) { names_.run_ended(run, ended, exit_code); }

  /// Seals a month (`2026-01`, UTC). Fails with E1914 if the text is no month, or the month is not over or not
  /// recorded, and with E1915 if the month is closed already.
  [[nodiscard]] Result<ClosedPeriod> close_period(const std::string& name, TimeMs now);

  /// Reads the whole file; if it contradicts itself, sets it aside and returns false. To be called after a Reader has
  /// found damage.
  [[nodiscard]] bool check();
  /// Returns true if the path still leads to the open file; otherwise the next commit() begins a new file.
  [[nodiscard]] bool in_place() const { return file_.in_place(); }

  /// Changes Options::longest_step, from the next sample on.
  void set_longest_step(TimeMs step) { integrator_.set_longest_step(step); }
  /// Changes Options::usage_kept.
  void set_usage_kept(TimeMs kept) { upkeep_.set_usage_kept(kept); }

  /// Returns the notices about the file since the last call, for example that it was set aside and under which name.
  [[nodiscard]] std::vector<Message> take_notices() { return file_.take_notices(); }

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

 private:
  History(HistoryFile file, const Options& options)
      : file_(std::move(file)), integrator_(options.longest_step, options.charts) {
    upkeep_.set_usage_kept(options.usage_kept);
  }

  [[nodiscard]] Result<void> load();
  [[nodiscard]] Result<void> begin_anew();
  /// Runs the transaction, and once more in a new file if the present one proves damaged.
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
