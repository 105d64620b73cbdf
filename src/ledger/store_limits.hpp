// Limits, and requests to give back, written into a book by somebody who must survive whatever its owner does to the
// file meanwhile. Used by the node daemon. Promises: never takes the book's lock; a file that is truncated or damaged
// at any moment is an error, never a crash; only the file of `owner` is written, and the one that is open, whatever
// lies at its path by now.
#pragma once

#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "ledger/book_status.hpp"
#include "ledger/snapshot.hpp"

namespace ration::ledger {

struct LimitChange {
  std::uint32_t account = 0;
  std::optional<Bytes> limit, guarantee;  ///< absent: stays
  Bytes ceiling{};                        ///< what the limit may be raised to when somebody waits for it; 0: not at all
  Bytes granted{};                        ///< see ToldRecord; 0: the limit in force
  Bytes reach{};                          ///< likewise; it holds until `book` is closed
};

/// `book`: a descriptor, open for reading at least. Asks the cooperating programs of the workload to give back what
/// they do not use. kForeign as below.
[[nodiscard]] BookStatus request_trim(int book, std::uint32_t owner);

/// Stores what was found of Account::unrequested(), unless it is no longer as `read` says: the processes of which it
/// was found may have ended. Raises the account's peak to both together, and wakes waiting charges. kForeign as below.
[[nodiscard]] BookStatus store_unrequested(int book, std::uint32_t owner, std::uint32_t account,
                                           const AccountSnapshot& read, Bytes found);

/// What was written behind the book's end is gone. False: it is not `owner`'s, or cannot be changed.
[[nodiscard]] bool cut_to_size(int book, std::uint32_t owner);

/// Stores the changes and wakes who waits for bytes. kForeign: the file is not `owner`'s.
[[nodiscard]] BookStatus store_limits(int book, std::uint32_t owner, const std::vector<LimitChange>& changes);

}  // namespace ration::ledger
