// The reasons why a book was not opened or created. Used by every function that opens or creates a book.
#pragma once

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
[[nodiscard]] BookStatus status_of(int error) noexcept;

/// Returns a sentence for people that says what is wrong with the book.
[[nodiscard]] const char* describe(BookStatus status) noexcept;

}  // namespace ration::book
