// The hours of the history summed by run, device and (where wanted) day: the one source of reports, seals and exports.
// Promises: the charged amounts of all lines add up to capacity × time; `consistent` says that the parts, which were
// entered apart from each other, agree.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "history/amount.hpp"
#include "history/database.hpp"

namespace ration::history {

/// Whole hours: `from` is rounded down and `to` up to one, and what is not recorded yet is left out.
struct Window {
  TimeMs from = 0;
  TimeMs to = 0;
};

enum class Slice { kWhole, kDay };

/// What is charged for. kPeak: the most held in an hour, for the time it ran in that hour.
enum class Basis { kUsed, kLimit, kGuarantee, kMaxUsedGuarantee, kPeak };

/// `used limit guarantee max(used,guarantee) peak`; E1916 for another word.
[[nodiscard]] Result<Basis> parse_basis(const std::string& text);
[[nodiscard]] std::string name_of(Basis basis);

enum class Kind {
  kGoverned,    ///< by a run
  kUngoverned,  ///< by processes that were not started through ration
  kDriver,      ///< used, and of nobody: the driver's own
  kIdle,        ///< held by nobody
  kGap,         ///< the daemon did not run
  kOverlap,     ///< negative: hours in which more was charged for than the device has (limits promised twice)
};
[[nodiscard]] std::string name_of(Kind kind);

struct RunFacts {
  std::int64_t number = 0;
  TimeMs started = 0;
  std::string workload, tenant, user, labels;
};

/// What one GiB·h costs, in billionths of the currency; 0: nothing was said. At most ten thousand of it: the exact sums
/// of many devices over years fit 128 bits then.
struct Prices {
  std::int64_t general = 0;                        ///< for what is of no tenant, too: idle, ungoverned, charged twice
  std::map<std::string, std::int64_t> of_tenants;  ///< of those that have one of their own

  [[nodiscard]] bool any() const { return general != 0 || !of_tenants.empty(); }
  /// Whether there is one for that; `run`: null for what is of none.
  [[nodiscard]] bool known(const RunFacts* run) const;
  /// `run`: null for what is of none.
  [[nodiscard]] std::int64_t of(const RunFacts* run) const;
};

struct DeviceFacts {
  std::string uuid, name;
  std::int64_t capacity = 0;
};

/// One run on one device in one slice, or one of the other kinds on one device.
struct ChargeLine {
  TimeMs from = 0;       ///< of the slice
  std::int64_t run = 0;  ///< 0: of no run
  std::int64_t device = 0;
  Kind kind = Kind::kGoverned;
  ByteTime used, limited, guaranteed, held, charged;
  /// The most that it held at once.
  std::int64_t peak = 0;
  std::int64_t denials = 0;
  /// How long it ran, or lasted.
  TimeMs ms = 0;
};

struct Gap {
  TimeMs from = 0, to = 0;
};

struct Charges {
  /// The window as answered.
  TimeMs from = 0, to = 0;
  Slice sliced = Slice::kWhole;
  /// By slice, run, device; then the other kinds.
  std::vector<ChargeLine> lines;
  std::map<std::int64_t, RunFacts> runs;
  std::map<std::int64_t, DeviceFacts> devices;
  std::vector<Gap> gaps;
  ByteTime capacity;
  /// From when on the window is recorded; none where nothing of it is.
  std::optional<TimeMs> recorded_from;
  /// What was recorded before that is no longer kept.
  bool pruned = false;
  /// How long each device was recorded in the window, gaps included.
  std::map<std::int64_t, TimeMs> recorded_ms;
  /// Null: of none.
  [[nodiscard]] const RunFacts* run_of(const ChargeLine& line) const;
  /// Labels are for their own user: those of others' runs are left out.
  void hide_labels_from(const std::string& user);
  /// Every hour's runs add up to what the device's own row says, and no moment of a watched device is missing or
  /// counted twice.
  bool consistent = true;
};

/// Inside a transaction of the caller.
[[nodiscard]] Result<Charges> collect_charges(Database& database, const Window& window, Slice slice, Basis basis);

}  // namespace ration::history
