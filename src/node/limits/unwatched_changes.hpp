// Changes that `ration set` makes while no daemon runs, in a file beside the books, for the next daemon.
// Promise: the daemon treats them as requests of the folder's owner, who can write anything there, and never as facts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace ration::node {

struct UnwatchedChange {
  struct Account {
    std::optional<Bytes> limit, guarantee;  ///< absent if unchanged
  };
  std::uint64_t file_number = 0;  ///< number of the book's file
  std::uint64_t time_ns = 0;      ///< steady time, like OwnedWorkload::changed_ns
  std::map<std::uint32_t, Account> accounts;
  std::optional<Bytes> host_limit;  ///< limit of pinned host memory; absent if unchanged
};

/// Changes by the path of the book.
using UnwatchedChanges = std::map<std::string, UnwatchedChange>;

/// Returns the folder that contains the book.
[[nodiscard]] std::string folder_of(const std::string& path);

/// Reads the changes in a folder of books; empty if the file is absent, invalid, or not `owner`'s.
[[nodiscard]] UnwatchedChanges read_unwatched_changes(const std::string& folder, std::uint32_t owner);

/// Writes the changes, but leaves out changes to removed books. Fails with E1405.
[[nodiscard]] Result<void> write_unwatched_changes(const std::string& folder, const UnwatchedChanges& changes);

}  // namespace ration::node
