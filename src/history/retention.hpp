// Says how long the history keeps each kind of record. Used by the writer, which removes older records, and by queries,
// which choose a resolution that still exists.
#pragma once

#include <array>

#include "history/amount.hpp"

namespace ration::history {

/// The time for which hours, gaps and ended runs are kept, unless Options::usage_kept says otherwise. The lines of a
/// sealed month are kept for ever.
inline constexpr TimeMs kUsageKept = 400 * kDayMs;

/// The time for which events are kept, and the maximum number of events that are kept.
inline constexpr TimeMs kEventsKept = 90 * kDayMs;
inline constexpr std::int64_t kMaxEvents = 1'000'000;

/// A resolution of the charts. When a slot of a coarser resolution is over, it is made from slots of the next finer
/// resolution. Finer slots are therefore kept for longer than a coarser slot lasts.
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
