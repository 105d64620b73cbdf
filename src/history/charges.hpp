// The hours of the history summed by run, device and optionally day: the only source of reports, seals and exports.
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

/// Whole hours: `from` is rounded down and `to` up to one; hours that are not recorded yet are left out.
struct Window {
  TimeMs from = 0;
  TimeMs to = 0;
};

enum class Slice { kWhole, kDay };

/// The amount that is charged. kPeak: the most held in an hour, for the time that the run ran in that hour.
enum class Basis { kUsed, kLimit, kGuarantee, kMaxUsedGuarantee, kPeak };

/// Parses `used limit guarantee max(used,guarantee) peak`; E1916 for another word.
[[nodiscard]] Result<Basis> parse_basis(const std::string& text);
[[nodiscard]] std::string name_of(Basis basis);

enum class Kind {
  kGoverned,    ///< by a run
  kUngoverned,  ///< by processes that were not started through ration
  kDriver,      ///< in use by no process: the driver's own
  kIdle,        ///< unused
  kGap,         ///< the daemon was not running
  kOverlap,     ///< negative: hours in which more was charged than the device has (overlapping limits)
};
[[nodiscard]] std::string name_of(Kind kind);

struct RunFacts {
  std::int64_t number = 0;
  TimeMs started = 0;
  std::string workload, tenant, user, labels;
};

/// Prices of one GiB·h, in billionths of the currency; 0: none. At most ten thousand of the currency, so that exact
/// sums of many devices over years fit 128 bits.
struct Prices {
  std::int64_t general = 0;                        ///< also for lines without a tenant: idle, ungoverned, overlap
  std::map<std::string, std::int64_t> of_tenants;  ///< of tenants that have their own

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

/// One run on one device in one slice of time, or one of the other kinds on one device.
struct ChargeLine {
  TimeMs from = 0;       ///< of the slice
  std::int64_t run = 0;  ///< 0: no run
  std::int64_t device = 0;
  Kind kind = Kind::kGoverned;
  ByteTime used, limited, guaranteed, held, charged;
  /// The most that it held at one moment.
  std::int64_t peak = 0;
  std::int64_t denials = 0;
  /// How long it ran, or lasted.
  TimeMs ms = 0;
};

struct Gap {
  TimeMs from = 0, to = 0;
};

struct Charges {
  /// The window of the answer.
  TimeMs from = 0, to = 0;
  Slice sliced = Slice::kWhole;
  /// Sorted by slice, run, device; then the other kinds.
  std::vector<ChargeLine> lines;
  std::map<std::int64_t, RunFacts> runs;
  std::map<std::int64_t, DeviceFacts> devices;
  std::vector<Gap> gaps;
  ByteTime capacity;
  /// The start of the recorded part of the window; absent: nothing of it is recorded.
  std::optional<TimeMs> recorded_from;
  /// Earlier records have been removed.
  bool pruned = false;
  /// How long each device was recorded in the window, gaps included.
  std::map<std::int64_t, TimeMs> recorded_ms;
  /// Returns the line's run, or null if it has none.
  [[nodiscard]] const RunFacts* run_of(const ChargeLine& line) const;
  /// Removes labels of other users' runs: only a run's own user may see them.
  void hide_labels_from(const std::string& user);
  /// The runs of every hour add up to the device's own row, and every moment of a watched device is counted once.
  bool consistent = true;
};

/// Collects the charges. Requires a transaction of the caller.
[[nodiscard]] Result<Charges> collect_charges(Database& database, const Window& window, Slice slice, Basis basis);

}  // namespace ration::history
