// Small operations on text that people or clients type.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ration {

/// Returns the text without surrounding blanks and line breaks.
[[nodiscard]] std::string_view trimmed(std::string_view text);

/// Returns the text with ASCII letters in lower case.
[[nodiscard]] std::string lower(std::string_view text);

/// Returns the parts between the separators, including empty ones: `a,,b` has three parts, an empty text one. The parts
/// point into `text`.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// Returns the text before the first `mark` and the text after it, as for `key=value`; absent if there is no `mark`.
[[nodiscard]] std::optional<std::pair<std::string_view, std::string_view>> split_once(std::string_view text, char mark);

/// Parses a text of decimal digits to a number; absent if the text has another form, or the number does not fit.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Returns the number of letters to add, remove, change or swap that turns one word into the other.
[[nodiscard]] std::size_t distance(std::string_view left, std::string_view right);

/// Returns the word nearest to `typed`. The word may differ in one letter, or in up to a third of the typed letters.
/// Returns an empty text if every word differs in more.
[[nodiscard]] std::string nearest(std::string_view typed, const std::vector<std::string>& words);

/// Returns ` Did you mean 'nlp'?`, or an empty text.
[[nodiscard]] std::string suggestion(std::string_view typed, const std::vector<std::string>& words);

}  // namespace ration
