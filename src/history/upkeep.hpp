// Does the upkeep in a commit: makes the charts' coarser resolutions and removes old records. Used by History, inside
// its transaction.
#pragma once

#include "history/amount.hpp"
#include "history/database.hpp"

namespace ration::history {

/// Makes the slots of every coarser resolution that are over at `recorded_to`, each from the slots of the next finer
/// one. Each slot is written once, and the progress is stored in the same transaction, so that a kill neither doubles
/// nor skips a slot.
void roll_up(Database& database, TimeMs recorded_to);

/// Removes the records that retention.hpp no longer keeps at `now`.
void prune(Database& database, TimeMs now);

/// Decides when old records are removed: once an hour, and not while the clock may be wrong.
class Upkeep {
 public:
  void load(Database& database);
  /// Notes a sample after a gap. A clock that leaps far may be wrong, and would make everything look old. So nothing is
  /// removed until the clock has run on for a while.
  void note_gap(TimeMs from, TimeMs to);
  /// Does the upkeep. Requires that the caller has begun a transaction.
  void step(Database& database, TimeMs recorded_to) const;
  /// Notes that the transaction of step() was committed.
  void note_done(TimeMs recorded_to);

 private:
  TimeMs pruned_hour_ = 0, prune_from_ = 0;
};

}  // namespace ration::history
