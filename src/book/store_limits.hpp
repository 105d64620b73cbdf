// Functions that write into a book, whose owner may do anything to the file meanwhile: limits, and requests to give
// back memory. Used by the node daemon. Promises: no function takes the book's lock; a file that is truncated or
// damaged at any moment is an error, never a crash; only a file of `owner` is written, and only the one that is open,
// whatever lies at its path by now.
#pragma once

#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "book/book_status.hpp"
#include "book/snapshot.hpp"

namespace ration::book {

struct LimitChange {
  std::uint32_t account = 0;
  std::optional<Bytes> limit, guarantee;  ///< unchanged if absent
  Bytes ceiling{};                        ///< the value up to which a waiting request may raise the limit; 0 if none
  Bytes granted{};                        ///< see GrantRecord; 0 if it is the limit in force
  Bytes reach{};                          ///< see GrantRecord; it holds until `book` is closed
};

/// Asks the programs of the workload to give back unused memory. `book` is a descriptor, open at least for reading.
/// Returns kForeign as store_limits() does.
[[nodiscard]] BookStatus request_trim(int book, std::uint32_t owner);

/// Stores the daemon's finding for Account::unrequested(), unless the value has changed since `read` was made: the
/// processes that the finding concerns may then have ended. Raises the account's peak to the sum of charges and
/// finding, and wakes waiting charges. Returns kForeign as store_limits() does.
[[nodiscard]] BookStatus store_unrequested(int book, std::uint32_t owner, std::uint32_t account,
                                           const AccountSnapshot& read, Bytes found);

/// Cuts off bytes after the book's end. Returns false if the file is not `owner`'s, or cannot be changed.
[[nodiscard]] bool cut_to_size(int book, std::uint32_t owner);

/// Stores the changes, and the limit of pinned host memory if the book counts it, and wakes the threads that wait for
/// bytes. Returns kForeign if the file is not `owner`'s.
[[nodiscard]] BookStatus store_limits(int book, std::uint32_t owner, const std::vector<LimitChange>& changes,
                                      std::optional<Bytes> host_limit = std::nullopt);

}  // namespace ration::book
