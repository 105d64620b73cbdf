// Limits and guarantees of tenants in force now: the configuration, overridden by the schedule of the hour, overridden
// by a person's setting.
// Promises: every number has a source; a person's setting survives the daemon, until the configuration or the schedule
// changes the number beneath it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/configuration.hpp"
#include "node/events/event_text.hpp"
#include "node/state/state_file.hpp"
#include "node/tenants/schedules.hpp"

namespace ration::node {

struct TenantStatus {
  std::string name;
  config::Amount limit, guarantee;
  std::string limit_from,
      guarantee_from;  ///< source: `/etc/ration/ration.toml:31`, `schedule of …:40`, `ops`, `default`
  bool limit_by_schedule = false;
  std::int64_t priority = 0;
  std::optional<double> soft;  ///< per cent of the limit
  std::uint64_t changes = 0;   ///< by people
};

class Tenants {
 public:
  /// `file`: where people's settings are saved; empty: nowhere.
  explicit Tenants(std::string file);
  /// Returns a report of a damaged file; empty: it was sound.
  [[nodiscard]] const Message& damage() const { return file_.damage(); }

  /// Computes everything for an hour with these scheduled limits. Returns the limits that a schedule, or its end, has
  /// changed since the last call.
  std::vector<TenantChange> update(const config::Configuration& configuration, const ScheduledLimits& scheduled);
  [[nodiscard]] const std::vector<TenantStatus>& all() const { return now_; }
  [[nodiscard]] const TenantStatus* find(const std::string& name) const;

  /// Overrides a tenant's limit and guarantee, which the caller has checked; an empty text changes nothing. E1531: it
  /// cannot be saved; nothing changes.
  [[nodiscard]] Result<std::vector<TenantChange>> change(const std::string& name, const std::string& limit,
                                                         const std::string& guarantee, const std::string& by);

 private:
  struct Override {
    std::string text, by;
    std::string base_text;  ///< the number beneath, at the time of the setting
  };
  struct Overrides {
    Override limit, guarantee;
    std::uint64_t changes = 0;
  };
  void apply(TenantStatus& tenant) const;
  [[nodiscard]] Result<void> save();

  StateFile file_;
  std::map<std::string, Overrides> overrides_;
  std::vector<TenantStatus> base_, now_;  // without and with people's settings
};

}  // namespace ration::node
