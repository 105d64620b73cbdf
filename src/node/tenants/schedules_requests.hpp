// Requests of `ration set --schedule`: tenants' limits by the hour.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "node/request/caller.hpp"
#include "node/tenants/schedules.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

/// A schedule as it is shown.
struct ScheduleRow {
  std::string name;  ///< empty: the configuration's schedules have none
  std::string when, days;
  std::map<std::string, std::string> set;  ///< limits by tenant
  std::string from;                        ///< its author, or its line in the configuration
  std::string inactive;                    ///< why it is inactive altogether; empty: it is not
  bool in_force = false;                   ///< in force now
};

/// Returns people's schedules, then the configuration's.
[[nodiscard]] std::vector<ScheduleRow> schedule_rows(const Moment& moment, const Schedules& schedules);
/// Sets a schedule; operators only. Takes effect at the next tick. Returns all schedules, with `dry_run` as they would
/// be. E1502, and the errors of Schedules.
[[nodiscard]] Result<std::vector<ScheduleRow>> set_schedule(const Moment& moment, Schedules& schedules,
                                                            ScheduleRequest request, const Caller& caller, bool dry_run,
                                                            Events& events);
[[nodiscard]] Result<std::vector<ScheduleRow>> remove_schedule(const Moment& moment, Schedules& schedules,
                                                               const std::string& name, const Caller& caller,
                                                               bool dry_run, Events& events);

}  // namespace ration::node
