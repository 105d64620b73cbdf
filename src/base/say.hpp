// Makes messages: `say<"workload.ended">("workload"_is(name), "peak_bytes"_is(peak))`. Used by all code that reports
// something with an id. Promises: an unknown id, an argument that the pattern lacks, and a missing argument do not
// compile. A header should include message.hpp only, because every file that includes say.hpp is compiled again after
// each change of the table.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.hpp"
#include "base/message.hpp"
#include "base/message_table.hpp"

namespace ration {

namespace messages {

/// A text that can be an argument of a template.
template <std::size_t kSize>
struct Literal {
  char letters[kSize]{};
  consteval Literal(const char (&text)[kSize]) { std::copy_n(text, kSize, letters); }
  [[nodiscard]] constexpr std::string_view view() const { return {letters, kSize - 1}; }
};

/// An argument as text and as JSON.
struct Filled {
  std::string_view name;
  std::string text, json;
  bool is_absent = false;  ///< true to leave out the part of the pattern in `[…]` that contains it
};

template <Literal kName, typename T>
struct Argument {
  static constexpr std::string_view name = kName.view();
  const T& value;
};

template <Literal kName>
struct Name {
  /// Keeps only the value's address, since the argument is used in the same expression.
  template <typename T>
  constexpr Argument<kName, T> operator()(const T& value) const {
    return {value};
  }
};

/// Calls `visit` with the name of each argument of `pattern`, and with true if the argument stands in `[…]`.
template <typename Visit>
constexpr void each_argument(std::string_view pattern, const Visit& visit) {
  bool is_optional = false;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] == '[') is_optional = true;
    if (pattern[at] == ']') is_optional = false;
    if (pattern[at] != '{') continue;
    const std::size_t end = pattern.find('}', at);
    visit(pattern.substr(at + 1, end - at - 1), is_optional);
    at = end;
  }
}

constexpr bool has_argument(std::string_view pattern, std::string_view name) {
  bool found = false;
  each_argument(pattern, [&](std::string_view each, bool) { found = found || each == name; });
  return found;
}

/// Returns true if every argument of `pattern` outside `[…]` is among `given`.
template <std::size_t kCount>
constexpr bool all_given(std::string_view pattern, const std::array<std::string_view, kCount>& given) {
  bool all = true;
  each_argument(pattern, [&](std::string_view each, bool is_optional) {
    all = all && (is_optional || std::find(given.begin(), given.end(), each) != given.end());
  });
  return all;
}

enum class Form { kText, kSize, kDuration, kWait, kPercent };

/// Returns the form of an argument, which follows from its name.
constexpr Form form_of(std::string_view name) {
  if (name.ends_with("_bytes")) return Form::kSize;
  if (name.ends_with("_wait_seconds")) return Form::kWait;  // shows tenths if it is short
  if (name.ends_with("_seconds")) return Form::kDuration;
  return name.ends_with("_percent") ? Form::kPercent : Form::kText;
}

[[nodiscard]] Filled filled(std::string_view name, Bytes value);
[[nodiscard]] Filled filled(std::string_view name, std::chrono::nanoseconds value);
[[nodiscard]] Filled filled(std::string_view name, double value);
[[nodiscard]] Filled filled(std::string_view name, std::string_view value);
[[nodiscard]] Filled filled(std::string_view name, const Message& value);
[[nodiscard]] Filled filled_number(std::string_view name, std::int64_t value);
/// Joins several values into one: messages and sizes with ", ", numbers with ",", texts with "; ".
[[nodiscard]] Filled filled_list(std::string_view name, const std::vector<Filled>& parts, std::string_view separator);

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsList = false;
template <typename T>
inline constexpr bool kIsList<std::vector<T>> = true;

template <typename T>
consteval std::string_view separator_of() {
  if constexpr (std::is_same_v<T, Message> || std::is_same_v<T, Bytes>) return ", ";
  if constexpr (std::integral<T>) return ",";
  return "; ";
}

template <Literal kName, typename T>
Filled fill(const T& value) {
  constexpr std::string_view name = kName.view();
  if constexpr (kIsOptional<T>) {
    return value ? fill<kName>(*value) : Filled{name, {}, {}, true};
  } else if constexpr (kIsList<T>) {
    std::vector<Filled> parts;
    for (const auto& each : value) parts.push_back(fill<kName>(each));
    return filled_list(name, parts, separator_of<typename T::value_type>());
  } else if constexpr (form_of(name) == Form::kSize) {
    static_assert(std::is_same_v<T, Bytes>, "an argument whose name ends with _bytes is Bytes");
    return filled(name, value);
  } else if constexpr (form_of(name) == Form::kDuration || form_of(name) == Form::kWait) {
    static_assert(std::is_same_v<T, std::chrono::nanoseconds>, "one whose name ends with _seconds is a duration");
    return filled(name, value);
  } else if constexpr (form_of(name) == Form::kPercent) {
    static_assert(std::is_same_v<T, double>, "one whose name ends with _percent is a double");
    return filled(name, value);
  } else if constexpr (std::is_same_v<T, Message> || std::is_same_v<T, FixedMessage>) {
    return filled(name, static_cast<const Message&>(value));
  } else if constexpr (std::integral<T>) {
    return filled_number(name, static_cast<std::int64_t>(value));
  } else {
    return filled(name, std::string_view(value));
  }
}

/// Makes the message; arguments that stand in `[…]` may be missing.
[[nodiscard]] Message make(const MessageRow& row, const Filled* arguments, std::size_t count);

}  // namespace messages

/// Converts a count of nanoseconds to the type of a duration argument.
[[nodiscard]] constexpr std::chrono::nanoseconds nanoseconds(std::uint64_t count) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(count));
}

inline namespace message_names {
/// Names an argument of say(): `"peak_bytes"_is(peak)`.
template <messages::Literal kName>
consteval messages::Name<kName> operator""_is() {
  return {};
}
}  // namespace message_names

/// Makes the message `kId` of the table: `say<"workload.ended">("workload"_is(name), "peak_bytes"_is(peak))`.
template <messages::Literal kId, messages::Literal... kNames, typename... T>
[[nodiscard]] Message say(const messages::Argument<kNames, T>&... arguments) {
  constexpr std::size_t place = messages::find_row(kId.view());
  static_assert(place < std::size(kMessageTable), "src/base/message_table.hpp has no such id");
  if constexpr (place < std::size(kMessageTable)) {
    constexpr const MessageRow& row = kMessageTable[place];
    static_assert((messages::has_argument(row.english, kNames.view()) && ...), "its pattern has no such argument");
    static_assert(messages::all_given(row.english, std::array<std::string_view, sizeof...(T)>{kNames.view()...}),
                  "an argument of its pattern is missing");
    const std::array<messages::Filled, sizeof...(T)> given{messages::fill<kNames>(arguments.value)...};
    return messages::make(row, given.data(), given.size());
  }
}

/// Makes the message `kId`, which has no arguments, for code that keeps or compares it.
template <messages::Literal kId>
[[nodiscard]] consteval FixedMessage fixed() {
  constexpr std::size_t place = messages::find_row(kId.view());
  static_assert(place < std::size(kMessageTable), "src/base/message_table.hpp has no such id");
  constexpr const MessageRow& row = kMessageTable[place];
  static_assert(row.english.find('{') == std::string_view::npos, "its pattern has arguments");
  return {row.id, row.english.data()};
}

}  // namespace ration
