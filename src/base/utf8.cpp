#include "base/utf8.hpp"

namespace ration {

char32_t take_character(std::string_view& text) noexcept {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const char32_t lead = byte(0);
  const std::size_t size = lead < 0x80                   ? 1
                           : lead >= 0xc2 && lead < 0xe0 ? 2
                           : lead >= 0xe0 && lead < 0xf0 ? 3
                           : lead >= 0xf0 && lead < 0xf5 ? 4
                                                         : 0;
  char32_t character = size == 1 ? lead : lead & (0x7fU >> size);
  bool good = size != 0 && size <= text.size();
  for (std::size_t i = 1; good && i < size; ++i) {
    good = (byte(i) & 0xc0U) == 0x80U;
    character = character << 6U | (byte(i) & 0x3fU);
  }
  const bool too_long = (size == 3 && character < 0x800) || (size == 4 && character < 0x10000);
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  good = good && !too_long && !surrogate && character <= 0x10ffff;
  text.remove_prefix(good ? size : 1);
  return good ? character : kNoCharacter;
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty())
    if (take_character(text) == kNoCharacter) return false;
  return true;
}

std::string_view shortened(std::string_view text, std::size_t bytes) noexcept {
  std::string_view rest = text;
  std::size_t kept = 0;
  while (!rest.empty()) {
    take_character(rest);
    if (text.size() - rest.size() > bytes) break;
    kept = text.size() - rest.size();
  }
  return text.substr(0, kept);
}

std::string to_utf8(char32_t character) {
  const auto byte = [](char32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
  const auto further = [&](unsigned shift) { return byte(0x80U | (character >> shift & 0x3fU)); };
  if (character < 0x80) return {byte(character)};
  if (character < 0x800) return {byte(0xc0U | character >> 6U), further(0)};
  if (character < 0x10000) return {byte(0xe0U | character >> 12U), further(6), further(0)};
  return {byte(0xf0U | character >> 18U), further(12), further(6), further(0)};
}

std::string in_ascii(std::string_view text) {
  std::string plain;
  for (bool after_dash = false; !text.empty();) {
    const std::string_view before = text;
    const char32_t letter = take_character(text);
    const bool dash = letter == U'\u2013' || letter == U'\u2014' || letter == U'\u2015';
    if (dash)
      plain += after_dash ? "" : "--";
    else if (letter >= 0xff01 && letter <= 0xff5e)
      plain += static_cast<char>(letter - 0xfee0);
    else if (letter == U'\u3000')
      plain += ' ';
    else if (letter == U'\u3001' || letter == U'\u3002')
      plain += letter == U'\u3001' ? ',' : '.';
    else if (letter == U'\u201c' || letter == U'\u201d')
      plain += '"';
    else
      plain += before.substr(0, before.size() - text.size());
    after_dash = dash;
  }
  return plain;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const char32_t character = take_character(text);
    valid += to_utf8(character == kNoCharacter ? U'\uFFFD' : character);
  }
  return valid;
}

}  // namespace ration
