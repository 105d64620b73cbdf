// Schedules that people set at run time; they precede those of the configuration.
// Promises: they survive the daemon; one that no longer fits the configuration is inactive and says why.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/configuration.hpp"
#include "config/schedule.hpp"
#include "node/state/state_file.hpp"

namespace ration::node {

/// A schedule as typed.
struct ScheduleRequest {
  std::string name;                        ///< of the schedule
  std::string when;                        ///< `22:00-07:00`
  std::string days;                        ///< days of its beginning, `mon-fri`; empty: every day
  std::map<std::string, std::string> set;  ///< limits by tenant
  std::string by;                          ///< its author
};

/// Limits that schedules set at one hour, by tenant.
using ScheduledLimits = std::map<std::string, config::Sourced<config::Amount>>;

class Schedules {
 public:
  /// An empty path keeps nothing.
  explicit Schedules(std::string file);
  /// Returns a report of a damaged file; empty: it was sound.
  [[nodiscard]] const Message& damage() const { return file_.damage(); }

  /// Returns all schedules including this one, which replaces one of the same name. E1601: invalid text; E1801: unknown
  /// tenant; E1305: a limit below the tenant's guarantee; E1529: too many.
  [[nodiscard]] Result<std::vector<ScheduleRequest>> with(ScheduleRequest request,
                                                          const config::Configuration& configuration) const;
  /// Returns all schedules without that one. E1801.
  [[nodiscard]] Result<std::vector<ScheduleRequest>> without(const std::string& name) const;
  /// Saves and applies the schedules. E1531: they cannot be saved; nothing changes.
  [[nodiscard]] Result<void> save(std::vector<ScheduleRequest> fresh);
  [[nodiscard]] const std::vector<ScheduleRequest>& all() const { return all_; }
  /// Returns the limits at that hour: by these schedules, then by those of the configuration.
  [[nodiscard]] ScheduledLimits limits_at(const config::Configuration& configuration,
                                          const config::LocalTime& now) const;

 private:
  StateFile file_;
  std::vector<ScheduleRequest> all_;  // newest first
};

/// Converts to local time.
[[nodiscard]] config::LocalTime local_time(std::uint64_t time_of_day_ns);

/// Parses a schedule. Errors as in Schedules::with().
[[nodiscard]] Result<config::Schedule> to_schedule(const ScheduleRequest& request,
                                                   const config::Configuration& configuration);

}  // namespace ration::node
