// What `ration set` changed while no daemon ran: a file beside the books, kept for the daemon that takes them up next.
// Used by LocalNode, which writes it, and by UnwatchedChangesRule.
// Promise: it is read as a request of the folder's owner, who could write anything there, and never as a fact.
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
    std::optional<Bytes> limit, guarantee;  ///< absent: stays
  };
  std::uint64_t file_number = 0;  ///< of the book
  std::uint64_t time_ns = 0;      ///< steady, as OwnedWorkload::changed_ns
  std::map<std::uint32_t, Account> accounts;
};

/// By the path of the book.
using UnwatchedChanges = std::map<std::string, UnwatchedChange>;

/// The folder of books in which the book at `path` lies.
[[nodiscard]] std::string folder_of(const std::string& path);

/// `folder`: of books. Empty where there is no such file, it is not `owner`'s, or it cannot be understood.
[[nodiscard]] UnwatchedChanges read_unwatched_changes(const std::string& folder, std::uint32_t owner);

/// Leaves out what is about books that are gone. E1405.
[[nodiscard]] Result<void> write_unwatched_changes(const std::string& folder, const UnwatchedChanges& changes);

}  // namespace ration::node
