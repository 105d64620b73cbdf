// The limits that schedules set at a given wall-clock time. Used by the daemon. Pure: the caller splits the time
// (localtime_r), so that hours skipped or repeated by a change of the clock follow what the clock shows.
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

/// Returns the scheduled limits of tenants at that time; a tenant that is missing has its own limit. Days are those on
/// which a schedule begins: one that begins on Friday at 22:00 still holds on Saturday at 06:00. If several schedules
/// hold at once the first decides.
[[nodiscard]] std::map<std::string, Sourced<Amount>> limits_at(const Configuration& configuration,
                                                               const LocalTime& now);

[[nodiscard]] bool holds_at(const Schedule& schedule, const LocalTime& now);

}  // namespace ration::config
