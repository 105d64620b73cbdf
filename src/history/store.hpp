// The tables in which sums and the last sample are kept. Used by History, inside its transaction.
#pragma once

#include "history/database.hpp"
#include "history/integrator.hpp"

namespace ration::history {

/// Adds them to what is stored.
void store_sums(Database& database, const Pending& pending);

/// In place of the one before.
void store_last(Database& database, const Instant& last);
/// Its time is 0 where nothing was recorded.
[[nodiscard]] Instant load_last(Database& database);

}  // namespace ration::history
