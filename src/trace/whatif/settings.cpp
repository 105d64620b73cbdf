#include "trace/whatif/settings.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/strings.hpp"

namespace ration::trace {

Result<std::vector<Setting>> settings_in(std::string_view text, std::string_view allocator) {
  std::vector<Setting> settings;
  if (text.empty()) return settings;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] == '[') ++depth;
    if (at < text.size() && text[at] == ']') --depth;
    if (at < text.size() && (text[at] != ',' || depth > 0)) continue;
    const std::string_view part = trimmed(text.substr(begin, at - begin));
    const auto setting = split_once(part, ':');
    if (!setting) return no_setting(part, allocator);
    settings.push_back(*setting);
    begin = at + 1;
  }
  return settings;
}

std::optional<double> parse_share(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value > 0) || value > 1) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_mib(std::string_view text, std::uint64_t least_mib) {
  const auto number = parse_number<std::uint32_t>(text);
  if (!number || *number < least_mib) return std::nullopt;
  return std::uint64_t{*number} << 20;
}

std::optional<bool> parse_truth(std::string_view text) {
  if (text == "True" || text == "true") return true;
  if (text == "False" || text == "false") return false;
  return std::nullopt;
}

namespace {

constexpr const char* kExample =
    "ration whatif FILE --allocator pytorch:max_split_size_mb:128,expandable_segments:True";

}  // namespace

tl::unexpected<Error> no_setting(std::string_view text, std::string_view allocator) {
  return fail("E1813", fmt::format("'{}' is not a setting that the model of {} knows.", text, allocator), kExample, 2);
}

tl::unexpected<Error> no_value(const Setting& given, std::string_view values, std::string_view allocator) {
  return fail(
      "E1813",
      fmt::format("'{}' is not a value of {}, a setting of {}: use {}.", given.second, given.first, allocator, values),
      kExample, 2);
}

}  // namespace ration::trace
