// How long the history keeps each kind of record. Used by the writer, which removes older ones, and by queries, which
// choose the resolution that still exists.
#pragma once

#include <array>

#include "history/amount.hpp"

namespace ration::history {

/// Hours of runs and devices, gaps, and ended runs. The lines of a sealed period are kept for ever.
inline constexpr TimeMs kUsageKept = 400 * kDayMs;

/// Events are kept this long, at most this many.
inline constexpr TimeMs kEventsKept = 90 * kDayMs;
inline constexpr std::int64_t kMaxEvents = 1'000'000;

/// The charts' resolutions. A coarser one is made from the next finer one when its slot is over, so each is kept longer
/// than a slot of the next.
struct Resolution {
  TimeMs width;
  TimeMs kept;
};
inline constexpr std::array<Resolution, 6> kResolutions{{{kSecondMs, 30 * kMinuteMs},
                                                         {10 * kSecondMs, 6 * kHourMs},
                                                         {kMinuteMs, 2 * kDayMs},
                                                         {10 * kMinuteMs, 14 * kDayMs},
                                                         {kHourMs, 62 * kDayMs},
                                                         {kDayMs, kUsageKept}}};

}  // namespace ration::history
