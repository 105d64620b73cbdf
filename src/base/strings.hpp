// Small things done to text. Used wherever a person or a client types it.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ration {

/// Without the blanks and line breaks around it.
[[nodiscard]] std::string_view trimmed(std::string_view text);

/// With ASCII's letters in lower case.
[[nodiscard]] std::string lower(std::string_view text);

/// The parts between the separators, empty ones too: `a,,b` has three, an empty text one. They point into `text`.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// What stands before the first `mark` and all that stands behind it: `key=value`. Absent: there is none.
[[nodiscard]] std::optional<std::pair<std::string_view, std::string_view>> split_once(std::string_view text, char mark);

/// A number that is all of the text, in decimal digits. Absent: it is none, or does not fit.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Letters to add, remove, change or swap to turn one word into the other.
[[nodiscard]] std::size_t distance(std::string_view left, std::string_view right);

/// The word nearest to `typed`, or empty when none is near: more than a third of its letters differ.
[[nodiscard]] std::string nearest(std::string_view typed, const std::vector<std::string>& words);

/// ` Did you mean 'nlp'?`, or nothing.
[[nodiscard]] std::string suggestion(std::string_view typed, const std::vector<std::string>& words);

}  // namespace ration
