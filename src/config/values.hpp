// The texts of a configuration as values: shares, prices, hours, addresses. Used when a file is read, and by whoever
// takes the same texts from a person.
// Promises: any text at all may be given; what is not understood is E1601 with an example.
#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/units.hpp"

namespace ration::config {

/// A size as it was written: what `50%` is, is known only on a device.
struct Amount {
  std::string text;

  [[nodiscard]] bool is_set() const { return !text.empty(); }
  /// On a device of that size. Nothing is set: kUnlimited. Errors only if it never went through the configuration's
  /// check, or is `max-8GiB` of a smaller device.
  [[nodiscard]] Result<Bytes> on(Bytes device_total, Bytes device_free) const {
    return text.empty() ? Result<Bytes>(kUnlimited) : parse_size(text, device_total, device_free);
  }
};

/// parse_duration() and days: `400d`.
[[nodiscard]] Result<std::chrono::nanoseconds> parse_span(std::string_view text);

/// `90%` as 90; at most 100.
[[nodiscard]] Result<double> parse_share(std::string_view text);
/// `1% activity` or `1%` as 1.
[[nodiscard]] Result<double> parse_activity(std::string_view text);

/// What a GiB costs for an hour. Exact: prices are written as decimals, and summed over months.
struct Price {
  std::int64_t billionths = 0;  ///< of `currency`
  std::string currency;         ///< empty: not said
};
/// `0.031 EUR/GiB·h`; also `/GiB*h`, `/GiBh`, and without a currency `0.031/GiB·h`. At most 9 decimals and ten
/// thousand.
[[nodiscard]] Result<Price> parse_price(std::string_view text);

/// `EUR`, `€`, `$`: at most 8 bytes of letters.
[[nodiscard]] bool is_currency(std::string_view text);

/// Minutes of the day. `to` at or before `from`: past midnight.
struct Hours {
  int from = 0, to = 0;
};
/// `22:00-07:00`, `00:00-24:00`.
[[nodiscard]] Result<Hours> parse_hours(std::string_view text);

/// Bit i: the day i of tm_wday, 0 is Sunday.
using Days = std::bitset<7>;
/// `mon-fri`, `sat,sun`, `fri-mon`.
[[nodiscard]] Result<Days> parse_days(std::string_view text);

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;  ///< 0: any that is free
  bool loopback = false;
};
/// `127.0.0.1:7077`, `[::1]:7077`, `localhost:7077`. Other names are rejected: what they mean can change.
[[nodiscard]] Result<Endpoint> parse_listen(std::string_view text);

/// Up to 59 letters without spaces, commas, double quotes, slashes.
[[nodiscard]] bool is_name(std::string_view text);
/// E1409: what to say of a text that is none.
[[nodiscard]] tl::unexpected<Error> not_a_name(const std::string& text);

/// `*` stands for any letters, also slashes; `?` for one.
[[nodiscard]] bool fits(const std::string& pattern, const std::string& text);

}  // namespace ration::config
