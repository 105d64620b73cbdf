// A reader of books that another process may be writing or may have filled with any bytes. Used by the node daemon and
// by commands that watch workloads.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "book/book_status.hpp"
#include "book/snapshot.hpp"

namespace ration::book {

/// Returns the bytes charged to the account at this moment, or nullopt if the book that is open as `descriptor` cannot
/// be read.
[[nodiscard]] std::optional<Bytes> used_now(int descriptor, std::uint32_t account);

/// A reader of one book. It does not map the file, so a truncation of the file cannot harm the reader. It reads only
/// the slots ever used, and denials only if there are new ones. If shared memory changes hands during a reading, it
/// reads everything again, a few times at most. Not thread-safe.
class BookReader {
 public:
  /// Opens any plain file that has only one name (hard link); read() decides whether it is a book.
  static BookStatus open(const char* path, BookReader& out) noexcept;
  /// Reads the book. `denials_known` is the count of denials at the last reading; denials that earlier readings
  /// returned are left out of `out.denials`.
  BookStatus read(BookSnapshot& out, std::uint64_t denials_known = 0);
  /// Returns the user that owns the file, whatever the book itself says.
  [[nodiscard]] std::uint32_t owner() const noexcept { return owner_; }
  /// Returns true if every user could write the file when it was opened, as with a container's book.
  [[nodiscard]] bool everybody_may_write() const noexcept { return everybody_may_write_; }
  [[nodiscard]] int descriptor() const noexcept { return file_.get(); }
  /// Returns a number that identifies the file until the next boot, made from its inode and, if the file system records
  /// it, its time of birth. Writing into the file does not change the number.
  [[nodiscard]] std::uint64_t file_number() const noexcept { return number_; }
  /// Returns true if the file's name had been removed at the last reading.
  [[nodiscard]] bool deleted() const noexcept { return deleted_; }
  /// Returns the file's length at the last reading if the file was longer than a book, or 0 otherwise.
  [[nodiscard]] Bytes grown_to() const noexcept { return grown_to_; }

 private:
  FileDescriptor file_;
  std::set<std::uint64_t> unfinished_;  // numbers of denials without an entry at the last reading
  std::uint64_t number_ = 0;
  std::uint32_t owner_ = 0;
  bool deleted_ = false, everybody_may_write_ = false;
  Bytes grown_to_;
};

}  // namespace ration::book
