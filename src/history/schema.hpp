// The tables of the history and the migration of an older file. Used inside this room.
#pragma once

#include "base/result.hpp"
#include "history/database.hpp"

namespace ration::history {

/// Returns the newest schema that this ration knows (`PRAGMA user_version`).
[[nodiscard]] int newest_schema();

/// Brings an empty or older file up to date, each step in a transaction of its own. E1911 for a newer one, which stays
/// unchanged.
[[nodiscard]] Result<void> migrate(Database& database, const std::string& path);

/// Returns a number kept under a name in the table `marks`; 0: none.
[[nodiscard]] std::int64_t read_mark(Database& database, const std::string& name);

}  // namespace ration::history
