// The books of containers. A container's root user can write anything into its book, truncate it or let it grow. So a
// second file, which the container cannot reach, keeps the container's grants as they were when the book was made. Used
// by the hook, the command line and the daemon. Promises: a book exists together with its grants, or not at all; if the
// kernel and the daemon's mounts allow it, the book is the only file of a file system that has no room for more; a
// retired book leaves neither a mount nor a file of grants.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "book/book_status.hpp"
#include "book/new_book.hpp"
#include "book/snapshot.hpp"

namespace ration::book {

/// Returns the path of the file with the grants of that book's workload: FOLDER/granted/FILE.
[[nodiscard]] std::string granted_path(const std::string& book);
/// Reads the grants as a book in which nothing has happened yet. Returns none if the book belongs to no container, has
/// been retired, or does not belong to `owner`.
[[nodiscard]] std::optional<BookSnapshot> read_granted(const std::string& book, std::uint32_t owner);
/// Replaces the workload's identity, creation and modes in `book` with those in `granted`.
void restore_identity(BookSnapshot& book, const BookSnapshot& granted);

/// Makes the book, writable for every user who can reach it. The book gets a file system of its own if the process
/// `daemon` sees that file system at the book's path. Otherwise, and if `daemon` is absent, the book is a plain file.
[[nodiscard]] BookStatus create_granted(const std::string& book, const NewBook& contents,
                                        std::optional<std::int32_t> daemon);
/// Turns the book of an ended container into a plain file for `ration why`, or removes a damaged one. Another process
/// may do this at the same time, or may already have done it.
void retire(const std::string& book, std::int32_t exit_status = 0);
/// Removes the book, whatever its state.
void remove_book(const std::string& book);
/// Retires the books in that folder whose containers have ended unnoticed.
void retire_ended(const std::string& folder);
/// Removes the leftovers of a process that was killed while it made a book. Requires Store::lock().
void remove_unfinished(const std::string& folder);

}  // namespace ration::book
