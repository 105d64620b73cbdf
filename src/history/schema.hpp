// The tables of the history and how an older file becomes a newer one. Used inside this room.
#pragma once

#include "base/result.hpp"
#include "history/database.hpp"

namespace ration::history {

/// The newest schema that this ration knows (`PRAGMA user_version`).
[[nodiscard]] int newest_schema();

/// Brings an empty or older file up to date, each step in a transaction of its own. E1911 for a newer one, which is
/// left as it is.
[[nodiscard]] Result<void> migrate(Database& database, const std::string& path);

/// A number kept under a name in the table `marks`; 0: there is none.
[[nodiscard]] std::int64_t read_mark(Database& database, const std::string& name);

}  // namespace ration::history
