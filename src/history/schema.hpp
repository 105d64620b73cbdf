// Defines the tables of the history and migrates an older file. Used in this folder only.
#pragma once

#include "base/result.hpp"
#include "history/database.hpp"

namespace ration::history {

/// Returns the newest schema that this ration knows (`PRAGMA user_version`).
[[nodiscard]] int newest_schema();

/// Brings an empty or older file up to date, each step in a transaction of its own. Fails with E1911 for a newer file,
/// and leaves it unchanged.
[[nodiscard]] Result<void> migrate(Database& database, const std::string& path);

/// Returns the number under a name in the table `marks`; 0 if there is none.
[[nodiscard]] std::int64_t read_mark(Database& database, const std::string& name);

}  // namespace ration::history
