// Parses the texts of a configuration to values: shares, prices, hours, addresses. Used when a file is read, and by
// commands that take the same texts. Promise: any text may be given; an invalid one fails with E1601 and an example.
#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/units.hpp"

namespace ration::config {

/// A size as it was written, because `50%` has a value only on a particular device.
struct Amount {
  std::string text;

  [[nodiscard]] bool is_set() const { return !text.empty(); }
  /// Returns the bytes on a device of that size; kUnlimited if nothing is set. Fails only for `max-8GiB` on a smaller
  /// device, and for an amount that bypassed the configuration's check.
  [[nodiscard]] Result<Bytes> on(Bytes device_total, Bytes device_free) const {
    return text.empty() ? Result<Bytes>(kUnlimited) : parse_size(text, device_total, device_free);
  }
};

/// Parses a duration as parse_duration() does, or days: `400d`.
[[nodiscard]] Result<std::chrono::nanoseconds> parse_span(std::string_view text);

/// Parses a percentage, `90%` to 90; accepts at most 100 %.
[[nodiscard]] Result<double> parse_share(std::string_view text);
/// Parses `1% activity` or `1%` to 1.
[[nodiscard]] Result<double> parse_activity(std::string_view text);

/// The price of a GiB for an hour. The number is exact, because prices are written as decimals and summed over months.
struct Price {
  std::int64_t billionths = 0;  ///< price in billionths of `currency`
  std::string currency;         ///< empty if not given
};
/// Parses `0.031 EUR/GiB·h`, also with `/GiB*h` or `/GiBh`, and without a currency. Accepts at most 9 decimals and a
/// price of at most ten thousand.
[[nodiscard]] Result<Price> parse_price(std::string_view text);

/// Returns true for at most 8 bytes of letters: `EUR`, `€`, `$`.
[[nodiscard]] bool is_currency(std::string_view text);

/// A span of the day, from one minute of the day to another. If `to` is at or before `from`, the span extends past
/// midnight.
struct Hours {
  int from = 0, to = 0;
};
/// Parses `22:00-07:00` or `00:00-24:00`.
[[nodiscard]] Result<Hours> parse_hours(std::string_view text);

/// The days of a week, one bit per day, numbered as in tm_wday: 0 is Sunday.
using Days = std::bitset<7>;
/// Parses days such as `mon-fri`, `sat,sun` or `fri-mon`.
[[nodiscard]] Result<Days> parse_days(std::string_view text);

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;  ///< 0 for any free port
  bool loopback = false;
};
/// Parses `127.0.0.1:7077`, `[::1]:7077` or `localhost:7077`. Rejects other names, because their meaning can change.
[[nodiscard]] Result<Endpoint> parse_listen(std::string_view text);

/// Returns true for up to 59 letters without spaces, commas, double quotes and slashes.
[[nodiscard]] bool is_name(std::string_view text);
/// Returns E1409 for a text that is not a name.
[[nodiscard]] tl::unexpected<Error> not_a_name(const std::string& text);

/// Returns true if the text fits the pattern: `*` stands for any letters, also slashes, and `?` for one.
[[nodiscard]] bool fits(const std::string& pattern, const std::string& text);

}  // namespace ration::config
