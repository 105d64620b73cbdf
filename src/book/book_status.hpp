// The reasons why a book was not opened or created. Used by every function that opens or creates a book.
#pragma once

#include <cerrno>
#include <cstdint>

namespace ration::book {

enum class BookStatus : std::uint32_t {
  kOk,
  kMissing,
  kNotPermitted,
  kTruncated,
  kForeign,  ///< the file is not a book
  kOtherVersion,
  kDamaged,  ///< a book whose fields contradict each other
  kNoSpace,  ///< the disk is full
  kTooManyDevices,
  kSystem,  ///< errno has the reason
};

/// Returns why a book was not opened or created where the system's call failed with `error`, a value of errno.
[[nodiscard]] inline BookStatus status_of(int error) noexcept {
  switch (error) {
    case ENOENT:
      return BookStatus::kMissing;
    case EACCES:
    case EPERM:
    case EROFS:
      return BookStatus::kNotPermitted;
    case ENOSPC:
    case EDQUOT:
      return BookStatus::kNoSpace;
    default:
      return BookStatus::kSystem;
  }
}

/// Returns a sentence for people that says what is wrong with the book.
[[nodiscard]] const char* describe(BookStatus status) noexcept;

}  // namespace ration::book
