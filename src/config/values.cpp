#include "config/values.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/printable.hpp"
#include "base/strings.hpp"

namespace ration::config {
namespace {

tl::unexpected<Error> wrong(std::string_view text, const char* noun, const char* examples) {
  return fail("E1601", fmt::format("'{}' is not {}", text, noun), examples, 2);
}

/// Parses one to `longest` digits; -1 if the text is anything else.
int digits(std::string_view text, std::size_t longest) {
  if (text.empty() || text.size() > longest ||
      !std::all_of(text.begin(), text.end(), [](char letter) { return letter >= '0' && letter <= '9'; }))
    return -1;
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Parses `07:30` to minutes; -1 if the text is anything else.
int minute_of_day(std::string_view text) {
  const auto parts = split_once(text, ':');
  if (!parts || parts->second.size() != 2) return -1;
  const int hour = digits(parts->first, 2), minute = digits(parts->second, 2);
  if (hour < 0 || minute < 0 || minute > 59 || hour * 60 + minute > 24 * 60) return -1;
  return hour * 60 + minute;
}

int weekday(std::string_view text) {
  constexpr std::array<std::string_view, 7> kDays{"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
  const auto found = std::find(kDays.begin(), kDays.end(), text);
  return found == kDays.end() ? -1 : static_cast<int>(found - kDays.begin());
}

}  // namespace

Result<std::chrono::nanoseconds> parse_span(std::string_view text) {
  if (text.size() > 1 && text.back() == 'd') {
    const int days = digits(text.substr(0, text.size() - 1), 5);
    if (days >= 0) return std::chrono::hours(24) * days;
  } else if (const auto duration = parse_duration(text)) {
    return std::chrono::nanoseconds(*duration);
  }
  return wrong(text, "a duration", "Durations look like 500ms, 30s, 5m, 2h, 400d.");
}

Result<double> parse_share(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(number) || number < 0 || number > 100 ||
      std::string_view(end, static_cast<std::size_t>(text.data() + text.size() - end)) != "%")
    return wrong(text, "a percentage", "Percentages look like 90%.");
  return number;
}

Result<double> parse_activity(std::string_view text) {
  constexpr std::string_view kWord = "activity";
  std::string_view number = text;
  if (number.size() > kWord.size() && number.substr(number.size() - kWord.size()) == kWord)
    number.remove_suffix(kWord.size());
  const auto share = parse_share(trimmed(number));
  if (!share) return wrong(text, "a share of activity", "Write 1% activity.");
  return share;
}

bool is_currency(std::string_view text) {
  return !text.empty() && text.size() <= 8 && std::all_of(text.begin(), text.end(), [](unsigned char letter) {
    return std::isalpha(letter) != 0 || letter == '$' || letter >= 0x80;
  });
}

Result<Price> parse_price(std::string_view text) {
  const auto no_price = [&] { return wrong(text, "a price", "Prices look like 0.031 EUR/GiB·h."); };
  const auto parts = split_once(text, '/');
  if (!parts) return no_price();
  constexpr std::array<std::string_view, 4> kUnits{"GiB·h", "GiB*h", "GiB-h", "GiBh"};
  if (std::find(kUnits.begin(), kUnits.end(), parts->second) == kUnits.end()) return no_price();
  const std::string_view left = trimmed(parts->first);
  const std::size_t number_end = std::min(left.find_first_not_of("0123456789."), left.size());
  const std::string_view number = left.substr(0, number_end);
  const std::size_t point = std::min(number.find('.'), number.size());
  const int whole = digits(number.substr(0, point), 9);
  std::string decimals(number.substr(std::min(point + 1, number.size())));
  if (whole < 0 || (point < number.size() && digits(decimals, 9) < 0)) return no_price();
  decimals.resize(9, '0');
  constexpr std::int64_t kOne = 1'000'000'000, kHighest = 10'000 * kOne;
  Price price{whole * kOne + digits(decimals, 9), std::string(trimmed(left.substr(number_end)))};
  if (price.billionths > kHighest) return wrong(text, "a price", "At most 10000 for a GiB·h.");
  if (!price.currency.empty() && !is_currency(price.currency)) return no_price();  // for example a mistyped number
  return price;
}

Result<Hours> parse_hours(std::string_view text) {
  if (const auto parts = split_once(text, '-')) {
    const Hours hours{minute_of_day(parts->first), minute_of_day(parts->second)};
    if (hours.from >= 0 && hours.from < 24 * 60 && hours.to >= 0 && hours.from != hours.to) return hours;
  }
  return wrong(text, "a range of hours", "Write 22:00-07:00; the whole day is 00:00-24:00.");
}

Result<Days> parse_days(std::string_view text) {
  Days days;
  for (const std::string_view part : split(text, ',')) {
    const std::string_view entry = trimmed(part);
    const auto ends = split_once(entry, '-');
    const int first = weekday(ends ? ends->first : entry), last = ends ? weekday(ends->second) : first;
    if (first < 0 || last < 0) return wrong(text, "days of the week", "Write mon-fri, or sat,sun.");
    for (int day = first;; day = (day + 1) % 7) {
      days.set(static_cast<std::size_t>(day));
      if (day == last) break;
    }
  }
  return days;
}

Result<Endpoint> parse_listen(std::string_view text) {
  const auto no_address = [&] { return wrong(text, "an address and port", "Write 127.0.0.1:7077, or [::1]:7077."); };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return no_address();
  const int port = digits(text.substr(colon + 1), 5);
  if (port < 0 || port > 65535) return no_address();
  Endpoint endpoint{std::string(text.substr(0, colon)), static_cast<std::uint16_t>(port)};
  in_addr four{};
  in6_addr six{};
  if (endpoint.host == "localhost") {
    endpoint.loopback = true;
  } else if (endpoint.host.size() > 2 && endpoint.host.front() == '[' && endpoint.host.back() == ']') {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    if (::inet_pton(AF_INET6, endpoint.host.c_str(), &six) != 1) return no_address();
    endpoint.loopback = IN6_IS_ADDR_LOOPBACK(&six) != 0;
  } else if (::inet_pton(AF_INET, endpoint.host.c_str(), &four) == 1) {
    endpoint.loopback = (ntohl(four.s_addr) >> 24U) == 127;
  } else {
    return no_address();
  }
  return endpoint;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() < 60 && text.front() != '.' && text.front() != '-' &&
         std::all_of(text.begin(), text.end(),
                     [](char letter) {
                       return letter != '/' && letter != '"' && letter != ',' &&
                              static_cast<unsigned char>(letter) > 0x20 && letter != 0x7f;
                     }) &&
         is_printable(text);
}

tl::unexpected<Error> not_a_name(const std::string& text) {
  return fail("E1409", fmt::format("'{}' cannot be a name.", printable(text)),
              "Use up to 59 letters without spaces, commas, double quotes, slashes or control characters.", 2);
}

bool fits(const std::string& pattern, const std::string& text) {
  return ::fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
}

}  // namespace ration::config
