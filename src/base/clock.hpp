// The time of day, as books, the database and answers over HTTP write it down, and the clock of waits. For the shim
// too: libc alone.
#pragma once

#include <time.h>

#include <cstdint>

namespace ration {

inline constexpr std::uint64_t kMillisecond = 1'000'000, kSecond = 1'000 * kMillisecond;  ///< nanoseconds

/// Nanoseconds since 1970-01-01 00:00 UTC (CLOCK_REALTIME): may jump when somebody sets the clock.
[[nodiscard]] inline std::uint64_t unix_time_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

/// Nanoseconds since the machine started (CLOCK_MONOTONIC): never jumps, and is the same in all processes of a time
/// namespace.
[[nodiscard]] inline std::uint64_t monotonic_time_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace ration
