// Makes untrusted names and command lines safe to show on a terminal. Used where such text is typed and where books are
// read, also in the guard. Promise: printable text moves no cursor and changes neither colour nor direction.
#pragma once

#include <string>
#include <string_view>

namespace ration {

/// Returns true for UTF-8 without control characters (including U+0080 to U+009F), line separators, and marks that
/// change the direction of writing.
[[nodiscard]] bool is_printable(std::string_view text) noexcept;

/// Returns the text with `instead` for each character that is not printable, and for each byte that is not UTF-8.
[[nodiscard]] std::string printable(std::string text, char instead = '?');

}  // namespace ration
