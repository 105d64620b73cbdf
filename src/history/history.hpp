// The daemon's memory of the past: what was held, charged, denied and changed, in one SQLite file. The one writer.
// Used by the daemon's main loop; queries are Reader's (reader.hpp), which may live on another thread.
//
// Promises, each with a test:
//  - Killed at any moment, nothing is counted twice and nothing is lost but what was recorded since the last commit();
//    a daemon that is back within `longest_step` goes on with the last committed values, else the stretch is a gap.
//  - For every device and any stretch it was watched: held by runs + ungoverned + the driver's own + idle + gap
//    = capacity × time, in whole byte-milliseconds.
//  - The number of an event is never used again, and an event is stored when append() returns, or as soon as the disk
//    has room again.
//  - A damaged file is set aside (PATH.damaged-TIME) and a new one begun, and so it is where somebody removed the file:
//  in
//    the new one, watching began there. A file of a newer ration is left alone (E1911).
// Not promised: that the last second before a power cut is there (SQLite in write-ahead mode without a sync per
// commit). Not thread-safe: one thread owns it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "history/database.hpp"
#include "history/integrator.hpp"
#include "history/sample.hpp"

namespace ration::history {

struct Options {
  /// A longer time between two samples is a gap; three sample intervals are usual.
  TimeMs longest_step = 3 * 500;
  /// Whether points for charts are kept. Reports need none.
  bool charts = true;
};

struct Adjustment {
  std::int64_t id = 0;
  /// The closed month, `2026-01`.
  std::string period;
  TimeMs made = 0;
  std::string tenant, workload;
  /// Added to (or, negative, taken off) what was charged.
  ByteTime amount;
  std::string reason, by;
};

struct ClosedPeriod {
  std::string name;
  TimeMs closed = 0;
  /// SHA-256 of `lines`, in hexadecimal.
  std::string seal;
  /// One JSON array a line, sorted: what the month came to, by run and device. For ever, whatever is pruned.
  std::string lines;
  /// Whether the lines still give the seal.
  bool intact = false;
};

class History {
 public:
  /// Creates or takes up the file; only its owner may read it. E1911 (newer), E1912 (not usable), E1913 (another
  /// daemon has it).
  [[nodiscard]] static Result<History> open(const std::string& path, const Options& options = {});

  /// Takes a sample into memory; commit() stores it. E1918 for a sample that cannot be, which changes nothing.
  [[nodiscard]] Result<Recorded> record(const Sample& sample);

  /// Stores everything since the last commit in one transaction. After an error it is kept for the next try. Then the
  /// events that append() could not store.
  [[nodiscard]] Result<void> commit();

  /// Everything before this instant is counted and committed.
  [[nodiscard]] TimeMs committed_to() const noexcept { return committed_to_; }

  /// Stores events at once and gives them their numbers. After an error they have none, and are kept for the next
  /// append() or commit() that succeeds: before newer ones, with their times. Of very many the newest are lost; one
  /// event says how many.
  [[nodiscard]] Result<void> append(std::vector<Event>& events);
  /// Those that were stored late, since the last call, with their numbers.
  [[nodiscard]] std::vector<Event> take_late() { return std::exchange(late_, {}); }
  /// How many wait at most.
  static constexpr std::size_t kMaxKept = 10'000;
  [[nodiscard]] Result<std::int64_t> append(Event event);

  /// Stored with the next commit. A run that no sample showed is not known, and stays so.
  void run_ended(const RunKey& run, TimeMs ended, int exit_code);

  /// Seals a month (`2026-01`, UTC). E1914: no month, or not over and recorded; E1915: closed already.
  [[nodiscard]] Result<ClosedPeriod> close_period(const std::string& name, TimeMs now);

  /// Reads the whole file and sets it aside if it contradicts itself; false then. For a Reader that met damage.
  [[nodiscard]] bool check();
  /// The same, where the file was changed by anybody but this.
  void check_if_changed();
  /// Whether whoever opens the path finds the file that is written; the next commit() begins a new one where not.
  [[nodiscard]] bool in_place() const;

  /// Of Options, from the next sample on.
  void set_longest_step(TimeMs step) { integrator_.set_longest_step(step); }

  /// What happened to the file (set aside, and where to), since the last call.
  [[nodiscard]] std::vector<std::string> take_notices() { return std::exchange(notices_, {}); }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  struct Run {
    std::int64_t id = 0;
    WorkloadSample facts;
    bool stored = false;
  };
  struct Ended {
    RunKey run;
    TimeMs time = 0;
    int exit_code = 0;
  };
  struct LineName {
    int kind = 0;
    std::string name;
    std::int64_t device = 0;
    auto operator<=>(const LineName&) const = default;
  };
  struct Numbered {
    std::int64_t id = 0;
    bool stored = false;
  };
  struct Device {
    std::int64_t id = 0, capacity = 0;
    std::string name;
    bool stored = false;
  };

  History(Database database, const Options& options)
      : database_(std::move(database)), integrator_(options.longest_step, options.charts) {}

  [[nodiscard]] static Result<Database> open_file(const std::string& path, std::vector<std::string>& notices,
                                                  bool again);
  [[nodiscard]] Result<void> load();
  [[nodiscard]] Result<void> start_afresh();
  /// Begin, write, commit; once more in a new file when this one turns out to be damaged.
  [[nodiscard]] Result<void> transaction(const std::function<void()>& write);
  const Run& known_run(const WorkloadSample& workload);
  [[nodiscard]] Result<void> store_events(std::vector<Event>& events);
  [[nodiscard]] Result<void> store_kept();
  void keep(const std::vector<Event>& events);
  void store_names();
  void store_sums();
  void store_last();
  std::int64_t line(int kind, const std::string& name, std::int64_t device);

  Database database_;
  Integrator integrator_;
  FileDescriptor lock_;
  std::string path_;
  std::vector<std::string> notices_;
  /// Of the database's file, as it was left.
  struct Identity {
    std::uint64_t inode = 0;
    std::int64_t size = 0, changed_ns = 0;
    bool operator==(const Identity&) const = default;
  };
  [[nodiscard]] Identity identity() const;
  Identity left_;
  std::optional<Error> unusable_;  // no new file could be begun yet; commit() tries again
  std::map<RunKey, Run> runs_;
  std::map<std::string, Device> devices_;
  std::map<LineName, Numbered> lines_;
  std::vector<Ended> ended_;
  std::deque<Event> kept_;  // could not be stored yet, the oldest first
  std::size_t lost_ = 0;    // those that came when kept_ was full
  TimeMs lost_from_ = 0, lost_to_ = 0;
  std::vector<Event> late_;  // stored late, and not told yet
  std::int64_t last_run_ = 0, last_device_ = 0, last_line_ = 0;
  TimeMs committed_to_ = 0, pruned_hour_ = 0, prune_from_ = 0;
};

}  // namespace ration::history
