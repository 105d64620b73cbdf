// Reading a book that somebody else may be writing, or may have filled with anything at all. Used by the node daemon
// and whoever watches workloads.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "ledger/book_status.hpp"
#include "ledger/snapshot.hpp"

namespace ration::ledger {

/// What is charged to that account at this moment, by an open book. Absent: it cannot be read.
[[nodiscard]] std::optional<Bytes> used_now(int descriptor, std::uint32_t account);

/// A book read again and again without mapping it, so that a truncation meanwhile cannot harm the reader. It reads only
/// the slots ever used, and the denials only when there are new ones; all of it again, a few times at most, where
/// memory that several processes hold changed hands meanwhile. Not thread-safe.
class BookReader {
 public:
  /// Any plain file of one name: read() says whether it is a book.
  static BookStatus open(const char* path, BookReader& out) noexcept;
  /// `denials_known`: the count of denials of the last reading; older ones are left out of `out.denials`.
  BookStatus read(BookSnapshot& out, std::uint64_t denials_known = 0);
  /// The user whose file it is, whatever the book itself says.
  [[nodiscard]] std::uint32_t owner() const noexcept { return owner_; }
  /// As a container's book, when it was opened.
  [[nodiscard]] bool everybody_may_write() const noexcept { return everybody_may_write_; }
  [[nodiscard]] int descriptor() const noexcept { return file_.get(); }
  /// Of the file, from its inode and, where the file system keeps it, the time of its birth: nothing that is written
  /// into it changes that, and another file has another one until the next boot.
  [[nodiscard]] std::uint64_t file_number() const noexcept { return number_; }
  /// Whether its name was taken away, at the last reading.
  [[nodiscard]] bool deleted() const noexcept { return deleted_; }
  /// How long it was at the last reading, where that is longer than a book is; else 0.
  [[nodiscard]] Bytes grown_to() const noexcept { return grown_to_; }

 private:
  FileDescriptor file_;
  std::set<std::uint64_t> unfinished_;  // numbers of denials that had no entry yet at the last reading
  std::uint64_t number_ = 0;
  std::uint32_t owner_ = 0;
  bool deleted_ = false, everybody_may_write_ = false;
  Bytes grown_to_;
};

}  // namespace ration::ledger
