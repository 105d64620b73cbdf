// Settings of allocators as text: `NAME:VALUE`, with commas between them. Used by the parsers of each allocator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace ration::trace {

using Setting = std::pair<std::string_view, std::string_view>;

/// Splits a text at the commas outside of brackets. Fails with E1813 if a part has no colon.
[[nodiscard]] Result<std::vector<Setting>> settings_in(std::string_view text, std::string_view allocator);

/// A setting of an allocator: its name, a description of its values, and a function that reads a value. read() returns
/// false for an invalid value.
template <typename Settings>
struct KnownSetting {
  std::string_view name, values;
  bool (*read)(std::string_view value, Settings& settings);
};

/// Sets `field` and returns true if there is a value.
template <typename Value, typename Field>
bool set_to(const std::optional<Value>& value, Field& field) {
  if (value) field = *value;
  return value.has_value();
}

/// Parses a number above 0 and at most 1.
[[nodiscard]] std::optional<double> parse_share(std::string_view text);
/// Parses a number of MiB that is at least `least_mib`. Returns bytes.
[[nodiscard]] std::optional<std::uint64_t> parse_mib(std::string_view text, std::uint64_t least_mib);
/// Parses `True` or `False`.
[[nodiscard]] std::optional<bool> parse_truth(std::string_view text);

/// Returns the error for a setting that the model does not know.
[[nodiscard]] tl::unexpected<Error> no_setting(std::string_view text, std::string_view allocator);
/// Returns the error for an invalid value of a setting; `values` describes the valid values.
[[nodiscard]] tl::unexpected<Error> no_value(const Setting& given, std::string_view values, std::string_view allocator);

/// Parses `NAME:VALUE,NAME:VALUE` by the table `known`. Fails with E1813 for an unknown name or a value that the
/// setting cannot have.
template <typename Settings, typename Table>
[[nodiscard]] Result<Settings> parse_settings(std::string_view text, std::string_view allocator, const Table& known) {
  Settings settings;
  RATION_TRY(const auto given, settings_in(text, allocator));
  for (const Setting& setting : given) {
    const auto found = std::ranges::find(known, setting.first, &KnownSetting<Settings>::name);
    if (found == std::end(known)) return no_setting(setting.first, allocator);
    if (!found->read(setting.second, settings)) return no_value(setting, found->values, allocator);
  }
  return settings;
}

}  // namespace ration::trace
