// `ration schedule`: limits of tenants by the hour.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "node/state/caller.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

/// A schedule as it is shown.
struct ScheduleRow {
  std::string name;  ///< empty: of the configuration, where they have none
  std::string when, days;
  std::map<std::string, std::string> set;  ///< limits of tenants
  std::string from;                        ///< who set it, or where it is written
  std::string rests;                       ///< why it does not count at all; empty: it does
  bool holds = false;                      ///< at this moment
};

/// People's, then the configuration's.
[[nodiscard]] std::vector<ScheduleRow> schedule_rows(const NodeState& state);
/// Operators only; holds from the next tick on. Returns all, with `dry_run` as they would be. E1502, and those of
/// Schedules.
[[nodiscard]] Result<std::vector<ScheduleRow>> set_schedule(NodeState& state, ScheduleWish wish, const Caller& caller,
                                                            bool dry_run, Events& events);
[[nodiscard]] Result<std::vector<ScheduleRow>> remove_schedule(NodeState& state, const std::string& name,
                                                               const Caller& caller, bool dry_run, Events& events);

}  // namespace ration::node
