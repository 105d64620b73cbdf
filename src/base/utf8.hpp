// The one decoder of UTF-8 (RFC 3629). Used wherever text of strangers is checked, measured or shown.
// Promises: any bytes at all may be given, nothing is read beyond them, and what is too long for what it says, a half
// of a surrogate pair, cut off or beyond U+10FFFF is no character. libc alone; to_utf8() alone allocates.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ration {

/// What take_character() answers for a byte that begins no character.
inline constexpr char32_t kNoCharacter = 0xffffffff;

/// Takes the first character off the front of `text`, which is not empty. kNoCharacter: one byte was taken.
char32_t take_character(std::string_view& text) noexcept;

[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// Characters, a byte that is none counted as one. Not columns: a wide one counts once, a combining mark too.
[[nodiscard]] std::size_t count_characters(std::string_view text) noexcept;

/// The longest beginning of at most `bytes` bytes that cuts no character in two.
[[nodiscard]] std::string_view shortened(std::string_view text, std::size_t bytes) noexcept;

/// `character` is at most U+10FFFF.
[[nodiscard]] std::string to_utf8(char32_t character);

}  // namespace ration
