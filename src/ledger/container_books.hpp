// The books of containers. Root of a container can write anything into its book, cut it short or let it grow; so what
// the container was granted stands beside it, out of its reach, as it was when the book was made. Used by the hook, the
// command line and the daemon. Promises: a book is there together with what was granted, or not at all; where the
// kernel and the daemon's mounts allow it, the book is the only file of a file system that has no room for more; what
// is retired leaves neither a mount nor a record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ledger/book_status.hpp"
#include "ledger/new_book.hpp"
#include "ledger/snapshot.hpp"

namespace ration::ledger {

/// Where it stands what the workload of that book was granted: FOLDER/granted/FILE.
[[nodiscard]] std::string granted_path(const std::string& book);
/// What it was granted, as a book in which nothing has happened yet. Absent: it is of no container, has been retired,
/// or is not `owner`'s.
[[nodiscard]] std::optional<BookSnapshot> read_granted(const std::string& book, std::uint32_t owner);
/// Who it is, when it began, and with whom it ends, as granted: whatever its book says.
void restore_identity(BookSnapshot& book, const BookSnapshot& granted);

/// Makes it, writable for everybody who reaches it. `daemon`: who has to see a book that has a file system of its own;
/// absent, or where it does not see that: a plain file.
[[nodiscard]] BookStatus create_granted(const std::string& book, const NewBook& contents,
                                        std::optional<std::int32_t> daemon);
/// Its container has ended: the book becomes a plain file of the past, as `ration why` reads it; one that is damaged is
/// removed. Fine where somebody else does so, or did.
void retire(const std::string& book, std::int32_t exit_status = 0);
/// Takes it away, whatever it is.
void remove_book(const std::string& book);
/// Retires the books in that folder whose containers have ended while nobody looked.
void retire_ended(const std::string& folder);
/// Takes away what was being made by who was killed. While Store::lock() is held.
void remove_unfinished(const std::string& folder);

}  // namespace ration::ledger
