#include "base/printable.hpp"

#include <algorithm>
#include <cstddef>

#include "base/utf8.hpp"

namespace ration {
namespace {

constexpr bool is_shown(char32_t code) noexcept {
  const auto within = [code](char32_t first, char32_t last) { return code >= first && code <= last; };
  return code != kNoCharacter && code >= 0x20 && !within(0x7f, 0x9f) && code != 0x61c && !within(0x200e, 0x200f) &&
         !within(0x2028, 0x202e) && !within(0x2066, 0x2069);
}

bool is_plain(char letter) noexcept { return letter >= 0x20 && letter < 0x7f; }

}  // namespace

bool is_printable(std::string_view text) noexcept {
  while (!text.empty())
    if (!is_shown(take_character(text))) return false;
  return true;
}

std::string printable(std::string text, char instead) {
  if (std::all_of(text.begin(), text.end(), is_plain)) return text;
  std::size_t to = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const char* const from = rest.data();
    const bool shown = is_shown(take_character(rest));
    to = static_cast<std::size_t>(
        (shown ? std::copy(from, rest.data(), &text[to]) : std::fill_n(&text[to], 1, instead)) - text.data());
  }
  text.resize(to);
  return text;
}

}  // namespace ration
