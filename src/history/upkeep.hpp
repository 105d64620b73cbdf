// What a commit does beside storing: charts' coarser resolutions are made, and what is too old is removed.
// Used by History, inside its transaction.
#pragma once

#include "history/amount.hpp"
#include "history/database.hpp"

namespace ration::history {

/// Makes every slot of every coarser resolution that is over at `recorded_to` from the next finer one. Each is written
/// once, and how far that went is stored beside it: a kill neither doubles nor skips one.
void roll_up(Database& database, TimeMs recorded_to);

/// Removes what retention.hpp no longer keeps at `now`.
void prune(Database& database, TimeMs now);

}  // namespace ration::history
