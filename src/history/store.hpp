// Stores the sums and the last sample in their tables. Used by History, inside its transaction.
#pragma once

#include "history/database.hpp"
#include "history/integrator.hpp"

namespace ration::history {

/// Adds the pending sums to the stored ones.
void store_sums(Database& database, const Pending& pending);

/// Replaces the last sample.
void store_last(Database& database, const Instant& last);
/// Returns the last sample; its time is 0 if none is stored.
[[nodiscard]] Instant load_last(Database& database);

}  // namespace ration::history
