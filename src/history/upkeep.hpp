// Does the upkeep in a commit: makes the charts' coarser resolutions and removes old records. Used by History, inside
// its transaction.
#pragma once

#include <algorithm>

#include "history/amount.hpp"
#include "history/database.hpp"
#include "history/retention.hpp"

namespace ration::history {

/// Makes the slots of every coarser resolution that are over at `recorded_to`, each from the slots of the next finer
/// one. Each slot is written once, and the progress is stored in the same transaction, so that a kill neither doubles
/// nor skips a slot.
void roll_up(Database& database, TimeMs recorded_to);

/// Removes the records that retention.hpp no longer keeps at `now`; hours, gaps, ended runs and the points of days
/// after `usage_kept`.
void prune(Database& database, TimeMs now, TimeMs usage_kept);

/// Decides when old records are removed: once an hour, and not while the clock may be wrong.
class Upkeep {
 public:
  void load(Database& database);
  /// Changes how long use is kept, from the next removal on: at least a day.
  void set_usage_kept(TimeMs kept) { usage_kept_ = std::max(kept, kDayMs); }
  /// Notes a sample after a gap. A clock that leaps far may be wrong, and would make everything look old. So nothing is
  /// removed until the clock has run on for a while.
  void note_gap(TimeMs from, TimeMs to);
  /// Does the upkeep. Requires that the caller has begun a transaction.
  void step(Database& database, TimeMs recorded_to) const;
  /// Notes that the transaction of step() was committed.
  void note_done(TimeMs recorded_to);

 private:
  TimeMs pruned_hour_ = 0, prune_from_ = 0, usage_kept_ = kUsageKept;
};

}  // namespace ration::history
