#include "book/book_status.hpp"

namespace ration::book {

const char* describe(BookStatus status) noexcept {
  switch (status) {
    case BookStatus::kOk:
      return "the book is sound";
    case BookStatus::kMissing:
      return "there is no such book";
    case BookStatus::kNotPermitted:
      return "the book may not be opened for writing by this user";
    case BookStatus::kTruncated:
      return "the book is shorter than its format says";
    case BookStatus::kForeign:
      return "the file is not a book of ration";
    case BookStatus::kOtherVersion:
      return "the book was written by another version of ration";
    case BookStatus::kDamaged:
      return "the book's fields contradict each other";
    case BookStatus::kNoSpace:
      return "there is no space left for the book";
    case BookStatus::kTooManyDevices:
      return "a workload can have at most 16 devices";
    case BookStatus::kSystem:
      return "the system did not allow it";
  }
  return "unknown";
}

}  // namespace ration::book
