#pragma once
// The clock of recordings: the processor's counter if it runs at a constant rate, otherwise the nanoseconds of the
// system. Used by the recorder and by `ration run`, which notes when a recording began and ended. Needs libc alone.
#include <time.h>

#include <cstdint>

#include "base/clock.hpp"
#include "guard/recorder/record_layout.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ration::guard {

inline std::uint64_t clock_ns(clockid_t clock) noexcept {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kSecond + static_cast<std::uint64_t>(now.tv_nsec);
}

/// Returns true if the processor's counter runs at a constant rate, whatever the processor does.
inline bool has_even_counter() noexcept {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1U << 8) != 0;
#else
  return true;
#endif
}

inline const bool counts_nanoseconds = !has_even_counter();

/// Returns the processor's counter, or nanoseconds if the counter does not run at a constant rate.
[[nodiscard]] inline std::uint64_t ticks_now() noexcept {
#if defined(__x86_64__)
  if (!counts_nanoseconds) [[likely]]
    return __builtin_ia32_rdtsc();
  return clock_ns(CLOCK_MONOTONIC_RAW);
#elif defined(__aarch64__)
  std::uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}

/// Returns this moment on all clocks.
[[nodiscard]] inline Anchor anchor_now() noexcept {
  constexpr int kAttempts = 8;
  constexpr std::uint64_t kCloseTicks = 2000;  // a thread that loses its processor between two clocks tries again
  Anchor now{};
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    now = {ticks_now(), clock_ns(CLOCK_MONOTONIC_RAW), clock_ns(CLOCK_REALTIME)};
    if (ticks_now() - now.ticks < kCloseTicks) break;
  }
  return now;
}

}  // namespace ration::guard
