// The reasons for which a request for memory is denied, as books keep them. Their words are in admission/denials.cpp.
#pragma once

#include <cstdint>

namespace ration::book {

enum class DenialReason : std::uint16_t {
  kLimit = 1,
  kDeviceFull = 2,
  kNoAccount = 3,
  kUngoverned = 4,
  kBook = 5,
  kTableFull = 7,  ///< all entries of a table of the guard are in use; `limit` of the denial is their number
  kHostLimit = 8,  ///< the limit of pinned host memory is reached
  kShare = 6,      ///< a share of the program is used up; `used` and `limit` of the denial are the share's
};

}  // namespace ration::book
