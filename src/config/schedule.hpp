// Determines the limits that schedules set at a given wall-clock time. Used by the daemon. The caller splits the time
// (localtime_r), so that skipped and repeated hours follow what the clock shows.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "config/configuration.hpp"

namespace ration::config {

struct LocalTime {
  int weekday = 0;  ///< 0 is Sunday, as in tm_wday
  int hour = 0, minute = 0;
};

/// Returns the limits of tenants that schedules set at that time; a tenant that is missing from the result keeps its
/// own limit. A schedule's days are those on which it begins: one that begins on Friday at 22:00 still holds on
/// Saturday at 06:00. If several schedules hold, the first decides.
[[nodiscard]] std::map<std::string, Sourced<Amount>> limits_at(const Configuration& configuration,
                                                               const LocalTime& now);

[[nodiscard]] bool holds_at(const Schedule& schedule, const LocalTime& now);

}  // namespace ration::config
