// Requests of `ration set --schedule`: tenants' limits by the hour.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "node/request/caller.hpp"
#include "node/tenants/schedules.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

/// A schedule as people see it.
struct ScheduleRow {
  std::string name;  ///< empty for a schedule of the configuration
  std::string when, days;
  std::map<std::string, std::string> set;  ///< limits by tenant
  std::string from;                        ///< author, or line in the configuration
  std::string inactive;                    ///< why it is inactive at every hour; empty if it is not
  bool in_force = false;                   ///< true if it is in force now
};

/// Returns the schedules that people set, then those of the configuration.
[[nodiscard]] std::vector<ScheduleRow> schedule_rows(const Moment& moment, const Schedules& schedules);
/// Sets a schedule from the next tick on; only operators may. Returns all schedules as they are afterwards or, with
/// `dry_run`, as they would be. Fails with E1502 for any other caller, and as Schedules::with() and Schedules::save()
/// do.
[[nodiscard]] Result<std::vector<ScheduleRow>> set_schedule(const Moment& moment, Schedules& schedules,
                                                            ScheduleRequest request, const Caller& caller, bool dry_run,
                                                            Events& events);
[[nodiscard]] Result<std::vector<ScheduleRow>> remove_schedule(const Moment& moment, Schedules& schedules,
                                                               const std::string& name, const Caller& caller,
                                                               bool dry_run, Events& events);

}  // namespace ration::node
