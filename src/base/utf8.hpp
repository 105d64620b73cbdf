// The only decoder of UTF-8 (RFC 3629). Used to check, measure or show untrusted text. Promises: any bytes may be
// given, and nothing is read beyond them; an overlong encoding, half of a surrogate pair, a truncated character or one
// beyond U+10FFFF is no character; the decoder needs libc alone, and only to_utf8() and valid_utf8() allocate.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ration {

/// The result of take_character() for a byte that begins no character.
inline constexpr char32_t kNoCharacter = 0xffffffff;

/// Takes the first character off the front of `text`, which must not be empty. If the first byte begins no character,
/// takes this byte alone and returns kNoCharacter.
char32_t take_character(std::string_view& text) noexcept;

[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// Returns the longest beginning of at most `bytes` bytes that cuts no character in two.
[[nodiscard]] std::string_view shortened(std::string_view text, std::size_t bytes) noexcept;

/// Encodes `character`, which must be at most U+10FFFF.
[[nodiscard]] std::string to_utf8(char32_t character);

/// Returns the text with full-width letters, digits, signs and spaces as ASCII, with straight quotes, and with long
/// dashes as two hyphens. Input methods and word processors write such letters.
[[nodiscard]] std::string in_ascii(std::string_view text);

/// Returns the text with U+FFFD in place of every byte that begins no character.
[[nodiscard]] std::string valid_utf8(std::string_view text);

}  // namespace ration
