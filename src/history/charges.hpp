// Sums the hours of the history by run, device and optionally day: the only source of reports, seals and exports.
// Promises: the charged amounts of all lines add up to capacity × time; `consistent` is true if the parts, which were
// recorded separately, agree.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "history/amount.hpp"
#include "history/database.hpp"

namespace ration::history {

/// A window of whole hours: `from` is rounded down and `to` up; hours that are not recorded yet are left out.
struct Window {
  TimeMs from = 0;
  TimeMs to = 0;
};

enum class Slice { kWhole, kDay };

/// The amount that is charged. kPeak charges the most bytes that a run held in an hour, for the time for which it ran
/// in that hour.
enum class Basis { kUsed, kLimit, kGuarantee, kMaxUsedGuarantee, kPeak };

/// Parses `used`, `limit`, `guarantee`, `max(used,guarantee)` or `peak`. Fails with E1916 for any other word.
[[nodiscard]] Result<Basis> parse_basis(const std::string& text);
[[nodiscard]] std::string name_of(Basis basis);

enum class Kind {
  kGoverned,    ///< memory of a run
  kUngoverned,  ///< memory of processes that were not started through ration
  kDriver,      ///< memory in use by no process: the driver's own
  kIdle,        ///< memory not in use
  kGap,         ///< time in which the daemon was not running
  kOverlap,     ///< negative: the amount charged beyond the device's memory, because limits overlap
};
[[nodiscard]] std::string name_of(Kind kind);

struct RunFacts {
  std::int64_t number = 0;
  TimeMs started = 0;
  std::string workload, tenant, user, labels;
};

/// The prices of one GiB·h, in billionths of the currency; 0 if there is none. A price is at most ten thousand of the
/// currency, so that exact sums of many devices over years fit 128 bits.
struct Prices {
  std::int64_t general = 0;                        ///< for lines without a price of their own, such as idle memory
  std::map<std::string, std::int64_t> of_tenants;  ///< by tenant, for tenants with a price of their own

  [[nodiscard]] bool any() const { return general != 0 || !of_tenants.empty(); }
  /// Returns true if there is a price; `run` is null for lines without a run.
  [[nodiscard]] bool known(const RunFacts* run) const;
  /// Returns the price; `run` is null for lines without a run.
  [[nodiscard]] std::int64_t of(const RunFacts* run) const;
};

struct DeviceFacts {
  std::string uuid, name;
  std::int64_t capacity = 0;
};

/// The amounts of one run on one device in one slice of time. A line of a kind other than kGoverned has no run.
struct ChargeLine {
  TimeMs from = 0;       ///< start of the slice
  std::int64_t run = 0;  ///< 0 for a kind without runs
  std::int64_t device = 0;
  Kind kind = Kind::kGoverned;
  ByteTime used, limited, guaranteed, held, charged;
  /// The most bytes held at one moment.
  std::int64_t peak = 0;
  std::int64_t denials = 0;
  /// The milliseconds for which the line counts.
  TimeMs ms = 0;
};

/// The pinned host memory of one run in one slice of time. Pinned memory is on no device, so it is part of no sum, and
/// nothing is charged for it.
struct PinnedLine {
  TimeMs from = 0;
  std::int64_t run = 0;
  ByteTime used;
  std::int64_t peak = 0, denials = 0;
  TimeMs ms = 0;  ///< the time in which it was counted
};

struct Gap {
  TimeMs from = 0, to = 0;
};

struct Charges {
  /// The window that the answer covers.
  TimeMs from = 0, to = 0;
  Slice sliced = Slice::kWhole;
  /// The lines of runs, sorted by slice, run and device, followed by the lines of the other kinds.
  std::vector<ChargeLine> lines;
  /// Pinned memory, by slice and run. A run is missing if its book counts no pinned memory, or if an older ration
  /// recorded it.
  std::vector<PinnedLine> pinned;
  std::map<std::int64_t, RunFacts> runs;
  std::map<std::int64_t, DeviceFacts> devices;
  std::vector<Gap> gaps;
  ByteTime capacity;
  /// The start of the recorded part of the window; absent if none is recorded.
  std::optional<TimeMs> recorded_from;
  /// True if earlier records of the window have been removed.
  bool pruned = false;
  /// The recorded time of each device in the window, gaps included.
  std::map<std::int64_t, TimeMs> recorded_ms;
  /// Returns the line's run; null if it has none.
  [[nodiscard]] const RunFacts* run_of(const ChargeLine& line) const { return run_of(line.run); }
  [[nodiscard]] const RunFacts* run_of(std::int64_t run) const;
  /// Removes the labels of other users' runs, which only their own user may see.
  void hide_labels_from(const std::string& user);
  /// True if the runs of every hour add up to the device's own row, and every moment of a watched device is counted
  /// once.
  bool consistent = true;
};

/// Collects the charges. Requires that the caller has begun a transaction. Fails with E1916 for an empty window.
[[nodiscard]] Result<Charges> collect_charges(Database& database, const Window& window, Slice slice, Basis basis);

}  // namespace ration::history
