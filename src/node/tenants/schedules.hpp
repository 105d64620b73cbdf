// Schedules that people set while the daemon runs; where several hold at once they come before the configuration's.
// Used by Node. Promises: they survive the daemon; one that no longer fits the configuration rests and says why.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/configuration.hpp"
#include "node/state/state_file.hpp"

namespace ration::node {

/// As typed.
struct ScheduleWish {
  std::string name;                        ///< of the schedule
  std::string when;                        ///< `22:00-07:00`
  std::string days;                        ///< on which it begins, `mon-fri`; empty: every day
  std::map<std::string, std::string> set;  ///< limits of tenants
  std::string by;                          ///< who set it
};

class Schedules {
 public:
  /// `file`: where they are kept; empty: nowhere.
  explicit Schedules(std::string file);
  /// What to tell of a damaged file; empty: it was none.
  [[nodiscard]] const std::string& lost() const { return file_.damage(); }

  /// All, as they would be with this one; one of that name is replaced. E1601: something of it cannot be read; E1801:
  /// no such tenant; E1305: a limit below the tenant's guarantee; E1529: there are too many.
  [[nodiscard]] Result<std::vector<ScheduleWish>> with(ScheduleWish wish,
                                                       const config::Configuration& configuration) const;
  /// E1801.
  [[nodiscard]] Result<std::vector<ScheduleWish>> without(const std::string& name) const;
  /// E1531: they could not be kept, and those that were are.
  [[nodiscard]] Result<void> keep(std::vector<ScheduleWish> fresh);
  [[nodiscard]] const std::vector<ScheduleWish>& all() const { return all_; }

 private:
  StateFile file_;
  std::vector<ScheduleWish> all_;  // the newest first
};

/// What the configuration would hold. Errors as of Schedules::with().
[[nodiscard]] Result<config::Schedule> to_schedule(const ScheduleWish& wish,
                                                   const config::Configuration& configuration);

}  // namespace ration::node
