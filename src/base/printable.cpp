#include "base/printable.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ration {
namespace {

/// One character at the beginning of a text.
struct Character {
  std::size_t size = 1;  ///< in bytes
  bool is_shown = false;
};

constexpr bool is_shown(std::uint32_t code) noexcept {
  const auto within = [code](std::uint32_t first, std::uint32_t last) { return code >= first && code <= last; };
  return code >= 0x20 && !within(0x7f, 0x9f) && code != 0x61c && !within(0x200e, 0x200f) && !within(0x2028, 0x202e) &&
         !within(0x2066, 0x2069);
}

// A byte that begins nothing, or something that is cut off, too long for what it says or a half of a pair: not shown.
Character first_of(std::string_view text) noexcept {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {1, is_shown(lead)};
  const std::size_t size = lead >= 0xc2 && lead <= 0xdf   ? 2
                           : lead >= 0xe0 && lead <= 0xef ? 3
                           : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                          : 0;
  if (size == 0 || size > text.size()) return {};
  std::uint32_t code = lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3fU);
  }
  const bool too_long = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  const bool no_character = (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff;
  if (too_long || no_character) return {};
  return {size, is_shown(code)};
}

bool is_plain(char letter) noexcept { return letter >= 0x20 && letter < 0x7f; }

}  // namespace

bool is_printable(std::string_view text) noexcept {
  while (!text.empty()) {
    const Character next = first_of(text);
    if (!next.is_shown) return false;
    text.remove_prefix(next.size);
  }
  return true;
}

std::string printable(std::string text, char instead) {
  if (std::all_of(text.begin(), text.end(), is_plain)) return text;
  std::size_t to = 0;
  for (std::size_t from = 0; from < text.size();) {
    const Character next = first_of(std::string_view(text).substr(from));
    if (next.is_shown)
      for (std::size_t i = 0; i < next.size; ++i) text[to + i] = text[from + i];
    else
      text[to] = instead;
    to += next.is_shown ? next.size : 1;
    from += next.size;
  }
  text.resize(to);
  return text;
}

}  // namespace ration
