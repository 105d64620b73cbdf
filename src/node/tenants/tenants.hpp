// The present limits and guarantees of tenants. The configuration sets them, the schedule of the hour overrides the
// configuration, and a person's setting overrides both.
// Promises: every number has a source; a person's setting survives the daemon, until the configuration or the schedule
// changes the number that the setting overrides.
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
  /// Sources: `/etc/ration/ration.toml:31`, `schedule of …:40`, `ops`, `default`.
  std::string limit_from, guarantee_from;
  bool limit_by_schedule = false;
  std::int64_t priority = 0;
  std::optional<double> soft;  ///< per cent of the limit
  std::uint64_t changes = 0;   ///< number of changes by people
};

class Tenants {
 public:
  /// Reads people's settings from `file`; an empty path saves nothing.
  explicit Tenants(std::string file);
  /// Returns a report of a damaged file; empty if it was sound.
  [[nodiscard]] const Message& damage() const { return file_.damage(); }

  /// Computes the limits and guarantees for an hour with these scheduled limits. Returns the limits that a schedule,
  /// its end, or a reload has changed since the last call.
  std::vector<TenantChange> update(const config::Configuration& configuration, const ScheduledLimits& scheduled);
  [[nodiscard]] const std::vector<TenantStatus>& all() const { return now_; }
  [[nodiscard]] const TenantStatus* find(const std::string& name) const;

  /// Overrides a tenant's limit and guarantee, which the caller has checked; an empty text changes nothing. Fails with
  /// E1531 if they cannot be saved, and then changes nothing.
  [[nodiscard]] Result<std::vector<TenantChange>> change(const std::string& name, const std::string& limit,
                                                         const std::string& guarantee, const std::string& by);

 private:
  struct Override {
    std::string text, by;
    std::string base_text;  ///< the number that the setting overrode
  };
  struct Overrides {
    Override limit, guarantee;
    std::uint64_t changes = 0;
  };
  /// Puts people's settings in place of those of the configuration. Forgets a setting once the file or a schedule has
  /// changed what it replaced; returns true if it forgot one.
  bool apply(TenantStatus& tenant);
  [[nodiscard]] Result<void> save();

  StateFile file_;
  std::map<std::string, Overrides> overrides_;
  std::vector<TenantStatus> base_, now_;  // status without people's settings, and with them
};

}  // namespace ration::node
