// Why a book was not opened or created. Used with every way to one.
#pragma once

#include <cstdint>

namespace ration::ledger {

/// Why a book was not opened or created.
enum class BookStatus : std::uint32_t {
  kOk,
  kMissing,
  kNotPermitted,
  kTruncated,
  kForeign,  ///< no book at all
  kOtherVersion,
  kDamaged,  ///< a book whose fields contradict each other
  kNoSpace,  ///< the disk is full
  kTooManyDevices,
  kSystem,  ///< errno says why
};

/// One sentence for a person: what is wrong with the book.
[[nodiscard]] const char* describe(BookStatus status) noexcept;

}  // namespace ration::ledger
