// The time of day as books, the database and HTTP answers record it, and a clock for waits. Used everywhere, even in
// the guard, so these functions need libc alone.
#pragma once

#include <time.h>

#include <cstdint>

namespace ration {

inline constexpr std::uint64_t kMillisecond = 1'000'000, kSecond = 1'000 * kMillisecond;  ///< nanoseconds

/// Returns nanoseconds since 1970-01-01 00:00 UTC (CLOCK_REALTIME). The time jumps when the clock is set.
[[nodiscard]] inline std::uint64_t unix_time_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

/// Returns nanoseconds since the machine started (CLOCK_MONOTONIC). The time never jumps, and all processes of a time
/// namespace share it.
[[nodiscard]] inline std::uint64_t monotonic_time_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace ration
