// Which limits the clock on the wall says. Used by the daemon. Pure: the caller breaks the time down (localtime_r), so
// that hours which a change of the clock leaves out or repeats are simply what the clock on the wall shows.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "config/configuration.hpp"

namespace ration::config {

struct LocalTime {
  int weekday = 0;  ///< as tm_wday: 0 is Sunday
  int hour = 0, minute = 0;
};

/// Limits of tenants, as of now; who is not here has the limit of its own. Days are those on which a schedule begins:
/// what begins on Friday at 22:00 holds on Saturday at 06:00. Of several schedules that hold at once the first says
/// what a tenant has.
[[nodiscard]] std::map<std::string, Sourced<Amount>> limits_at(const Configuration& configuration,
                                                               const LocalTime& now);

[[nodiscard]] bool holds_at(const Schedule& schedule, const LocalTime& now);

}  // namespace ration::config
