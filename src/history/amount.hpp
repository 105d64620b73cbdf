// The quantity that is charged: memory multiplied by time, exactly. Used throughout this folder. Promise: amounts are
// whole byte-milliseconds in 128 bits, so that sums over years and devices neither round nor overflow.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "base/clock.hpp"
#include "base/time.hpp"

namespace ration::history {

/// Milliseconds since 1970-01-01 UTC.
using TimeMs = std::int64_t;

[[nodiscard]] constexpr TimeMs to_ms(std::uint64_t ns) { return static_cast<TimeMs>(ns / 1'000'000); }
[[nodiscard]] inline TimeMs now_ms() { return to_ms(unix_time_ns()); }

inline constexpr TimeMs kSecondMs = 1'000;
inline constexpr TimeMs kMinuteMs = 60'000;
inline constexpr TimeMs kHourMs = 3'600'000;
inline constexpr TimeMs kDayMs = 24 * kHourMs;

/// One GiB held for one hour.
inline constexpr __int128 kByteMsPerGibHour = (__int128{1} << 30) * kHourMs;

/// The largest device that can be recorded, 2 TiB: one hour of it in byte-milliseconds still fits a column of the
/// database (2^41 × 3.6e6 < 2^63).
inline constexpr std::int64_t kMaxDevice = std::int64_t{1} << 41;

class ByteTime {
 public:
  constexpr ByteTime() noexcept = default;
  constexpr explicit ByteTime(__int128 byte_ms) noexcept : byte_ms_(byte_ms) {}

  [[nodiscard]] constexpr __int128 byte_ms() const noexcept { return byte_ms_; }

  constexpr bool operator==(const ByteTime& other) const noexcept { return byte_ms_ == other.byte_ms_; }
  constexpr bool operator<(const ByteTime& other) const noexcept { return byte_ms_ < other.byte_ms_; }
  constexpr bool operator>(const ByteTime& other) const noexcept { return byte_ms_ > other.byte_ms_; }
  constexpr ByteTime& operator+=(ByteTime other) noexcept {
    byte_ms_ += other.byte_ms_;
    return *this;
  }
  constexpr ByteTime& operator-=(ByteTime other) noexcept {
    byte_ms_ -= other.byte_ms_;
    return *this;
  }
  friend constexpr ByteTime operator+(ByteTime left, ByteTime right) noexcept { return left += right; }
  friend constexpr ByteTime operator-(ByteTime left, ByteTime right) noexcept { return left -= right; }

 private:
  __int128 byte_ms_ = 0;
};

/// Formats byte-seconds as a decimal number without rounding: `1234`, `1234.5`, `-0.001`.
[[nodiscard]] std::string byte_seconds(ByteTime amount);

/// Converts to GiB·h, for people and for prices; rounds to a double.
[[nodiscard]] double gib_hours(ByteTime amount);

using ration::rfc3339;

/// Returns the first millisecond of a UTC month; `month` may be 13 (January of the next year).
[[nodiscard]] TimeMs month_start(int year, int month);

}  // namespace ration::history
