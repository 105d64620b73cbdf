// The id of each BookStatus in the table of messages, in the order of the enumeration.
#pragma once

#include <array>
#include <string_view>

#include "book/book_status.hpp"

namespace ration::book {

inline constexpr std::array<std::string_view, 10> kStatusIds{
    "book.is_sound",      "book.is_missing", "book.is_not_permitted", "book.is_truncated",         "book.is_foreign",
    "book.other_version", "book.is_damaged", "book.no_space",         "book.has_too_many_devices", "book.system"};
static_assert(kStatusIds.size() == static_cast<std::size_t>(BookStatus::kSystem) + 1);

}  // namespace ration::book
