// Text of strangers that a person's terminal will show: names and command lines. Used where such text is typed and
// where books are read, in the shim too. Promise: what is printable moves no cursor, changes no colour and no
// direction.
#pragma once

#include <string>
#include <string_view>

namespace ration {

/// UTF-8 without control characters (also the 8-bit ones, U+0080 to U+009F), line separators and marks that turn the
/// direction of what follows.
[[nodiscard]] bool is_printable(std::string_view text) noexcept;

/// The same text with `instead` for each character that is not printable, and for each byte that is not UTF-8.
[[nodiscard]] std::string printable(std::string text, char instead = '?');

}  // namespace ration
