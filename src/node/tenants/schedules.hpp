// Schedules that people set at run time. They take precedence over the schedules of the configuration.
// Promises: these schedules survive the daemon; a schedule that no longer fits the configuration is inactive and says
// why.
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
  std::string name;                        ///< name of the schedule
  std::string when;                        ///< `22:00-07:00`
  std::string days;                        ///< days on which it begins, such as `mon-fri`; empty for every day
  std::map<std::string, std::string> set;  ///< limits by tenant
  std::string by;                          ///< author
};

/// Limits that schedules set at one hour, by tenant.
using ScheduledLimits = std::map<std::string, config::Sourced<config::Amount>>;

class Schedules {
 public:
  /// Reads the schedules from `file`; an empty path keeps nothing.
  explicit Schedules(std::string file);
  /// Returns a report of a damaged file; empty if it was sound.
  [[nodiscard]] const Message& damage() const { return file_.damage(); }

  /// Returns all schedules including this one, which replaces one of the same name. Fails with E1601 for an invalid
  /// text, with E1801 for an unknown tenant, with E1305 for a limit below the tenant's guarantee, with E1529 if there
  /// are too many.
  [[nodiscard]] Result<std::vector<ScheduleRequest>> with(ScheduleRequest request,
                                                          const config::Configuration& configuration) const;
  /// Returns all schedules except the one of that name. Fails with E1801.
  [[nodiscard]] Result<std::vector<ScheduleRequest>> without(const std::string& name) const;
  /// Saves and applies the schedules. Fails with E1531 if they cannot be saved, and then changes nothing.
  [[nodiscard]] Result<void> save(std::vector<ScheduleRequest> fresh);
  /// Returns true if one of these schedules, or of the configuration's, sets the tenant's limit at some hour.
  [[nodiscard]] bool set_limit_of(const std::string& tenant, const config::Configuration& configuration) const;
  [[nodiscard]] const std::vector<ScheduleRequest>& all() const { return all_; }
  /// Returns the limits at that hour: those of these schedules and, for tenants that these schedules do not name, those
  /// of the configuration's schedules.
  [[nodiscard]] ScheduledLimits limits_at(const config::Configuration& configuration,
                                          const config::LocalTime& now) const;

 private:
  StateFile file_;
  std::vector<ScheduleRequest> all_;  // newest first
};

/// Converts a time to local time.
[[nodiscard]] config::LocalTime local_time(std::uint64_t time_of_day_ns);

/// Parses a schedule. Fails as Schedules::with() does.
[[nodiscard]] Result<config::Schedule> to_schedule(const ScheduleRequest& request,
                                                   const config::Configuration& configuration);

}  // namespace ration::node
