#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/size_step.hpp"
#include "base/utf8.hpp"

namespace ration {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 21> kUnits{{{"b", 1.0},
                                                                      {"k", 1024.0},
                                                                      {"kib", 1024.0},
                                                                      {"ki", 1024.0},
                                                                      {"kb", 1e3},
                                                                      {"m", 1048576.0},
                                                                      {"mib", 1048576.0},
                                                                      {"mi", 1048576.0},
                                                                      {"mb", 1e6},
                                                                      {"g", 1073741824.0},
                                                                      {"gib", 1073741824.0},
                                                                      {"gi", 1073741824.0},
                                                                      {"gb", 1e9},
                                                                      {"t", 1099511627776.0},
                                                                      {"tib", 1099511627776.0},
                                                                      {"ti", 1099511627776.0},
                                                                      {"tb", 1e12},
                                                                      {"bytes", 1.0},
                                                                      {"byte", 1.0},
                                                                      {"%", 0.0},
                                                                      {"%free", 0.0}}};

/// Returns the text without the spaces, commas, quotes and full-width letters that do not belong into a size.
std::string tidied(std::string_view text) {
  std::string tidy;
  for (const char letter : in_ascii(text))
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0 || std::string_view("+-.%").find(letter) < 4)
      tidy += letter;
  while (!tidy.empty() && tidy.back() == '.') tidy.pop_back();
  return tidy;
}

tl::unexpected<Error> no_size(std::string_view text) {
  const std::string what = fmt::format("'{}' is not a size.", text);
  if (const std::string tidy = tidied(text); tidy != text && parse_size(tidy, kUnlimited, kUnlimited))
    return fail("E1102", what, fmt::format("Write {}, without spaces, commas, quotes or full-width letters.", tidy), 2);
  return fail("E1102", what, "Sizes look like 4GiB, 512MiB, 50%, 50%free, max-1GiB.", 2);
}

/// The bound in MiB above which a number without a unit is taken for bytes, since no device has so much memory.
constexpr double kMostMib = 8 << 20;
/// The bound below which a number without a unit is more likely GiB: few limits are that small in MiB.
constexpr double kLeastMib = 512;

/// Returns the error for a size without a unit. `before` is the part of `typed` that precedes the number: a sign,
/// `max-` or nothing. The fix repeats `before`.
tl::unexpected<Error> no_unit(std::string_view typed, std::string_view before, double number) {
  std::string own;
  if (number > 0 && number < kLeastMib) own = fmt::format("{0}GiB, {0}MiB (TensorFlow's unit)", typed);
  if (number >= kLeastMib && number <= kMostMib) own = fmt::format("{}MiB (TensorFlow's unit)", typed);
  if (number > kMostMib && number < static_cast<double>(kUnlimited.count())) own = fmt::format("{}B", typed);
  return fail("E1101", fmt::format("'{}' has no unit.", typed),
              own.empty()          ? fmt::format("Write a size, such as {0}4GiB, or {0}50%.", before)
              : number < kLeastMib ? fmt::format("Write {}, or {}50%.", own, before)
                                   : fmt::format("Write {0}, {1}4GiB, or {1}50%.", own, before),
              2);
}

tl::unexpected<Error> too_large(std::string_view text, const std::string& than) {
  return fail("E1104", fmt::format("{} is more than {}.", text, than), "Use max, or a smaller size such as 4GiB.", 2);
}

/// The memory to which a size in percent refers.
struct Whole {
  Bytes total, free;
  std::string_view place;
};

/// Parses the size that begins at `start` of the typed text.
Result<Bytes> parse_from(std::string_view typed, std::size_t start, const Whole& whole) {
  const std::string_view before = typed.substr(0, start), text = typed.substr(start);
  if (text == "unlimited") return kUnlimited;
  if (text == "max") return whole.total;
  if (text.substr(0, 4) == "max-") {
    const Result<Bytes> less = parse_from(typed, start + 4, whole);
    if (!less) return less;
    if (*less > whole.total)
      return too_large(text.substr(4), fmt::format("the {} has ({})", whole.place, format_size(whole.total)));
    if (*less == whole.total)
      return fail("E1105", fmt::format("{} leaves no memory.", typed), "Subtract less, such as max-1GiB.", 2);
    return whole.total - *less;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return no_size(typed);
  std::string unit(end, text.data() + text.size());
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter; });
  if (unit.empty()) {
    if (number > 0 && number <= 1 && text.find('.') != std::string_view::npos) {
      return fail(
          "E1103", fmt::format("{} is ambiguous here.", typed),
          fmt::format("Write {}{:g}% (of the {}'s memory) or {}512MiB.", before, number * 100, whole.place, before), 2);
    }
    return no_unit(typed, before, number);
  }
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) continue;
    const bool share = factor == 0;
    const Bytes of = unit == "%free" ? whole.free : whole.total;
    const double bytes = share ? number / 100 * static_cast<double>(of.count()) : number * factor;
    if (share && number > 100)
      return fail("E1104", fmt::format("{} is more than the {} has (100%).", typed, whole.place),
                  fmt::format("Write {}100% at most.", before), 2);
    if (share && number == 100) return of;  // correct even while `of` is unknown (kUnlimited)
    if (bytes >= static_cast<double>(kUnlimited.count()))
      return too_large(text, fmt::format("any {} has", whole.place));
    return Bytes{static_cast<std::uint64_t>(share ? bytes : std::round(bytes))};  // 8.19 kB are 8190 bytes
  }
  return no_size(typed);
}

}  // namespace

Result<Bytes> parse_size(std::string_view text, Bytes total, Bytes free, std::string_view place) {
  return parse_from(text, 0, {total, free, place});
}

Result<Bytes> parse_step(std::string_view text, Bytes total, Bytes free, std::string_view place) {
  return parse_from(text, 1, {total, free, place});
}

Result<std::uint64_t> parse_duration(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::array<std::pair<std::string_view, double>, 4> kDurations{
      {{"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
  for (const auto& [name, factor] : kDurations) {
    if (error == std::errc{} && unit == name && number >= 0 && number * factor < 1e18)
      return static_cast<std::uint64_t>(number * factor);
  }
  return fail("E1106", fmt::format("'{}' is not a duration.", text), "Durations look like 500ms, 30s, 5m, 2h.", 2);
}

namespace {

/// Formats a size whose shown number is rounded by `round`.
template <typename Round>
std::string format_rounded(Bytes size, Units units, Round&& round) {
  if (size >= kUnlimited) return "unlimited";
  if (units == Units::kBytes) return std::to_string(size.count());
  constexpr std::array<const char*, 5> kIecNames{"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr std::array<const char*, 5> kSiNames{"B", "kB", "MB", "GB", "TB"};
  const auto& names = units == Units::kSi ? kSiNames : kIecNames;
  const double step = units == Units::kSi ? 1000 : 1024;
  auto value = static_cast<double>(size.count());
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < names.size()) value /= step, ++unit;
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", round(value, std::pow(10.0, digits)), digits, names[unit]);
}

}  // namespace

std::string format_size(Bytes size, Units units) {
  return format_rounded(size, units, [](double value, double) { return value; });
}

std::string format_size_up(Bytes size, Units units) {
  return format_rounded(size, units, [](double value, double scale) { return std::ceil(value * scale) / scale; });
}

std::string counted(std::size_t number, std::string_view thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

std::string format_duration(std::uint64_t nanoseconds) {
  const std::uint64_t seconds = nanoseconds / 1'000'000'000U;
  if (seconds >= 3600) return fmt::format("{}h {:02}m", seconds / 3600, seconds / 60 % 60);
  return seconds >= 60 ? fmt::format("{}m {:02}s", seconds / 60, seconds % 60) : fmt::format("{}s", seconds);
}

}  // namespace ration
