// What holds for each tenant at this moment: the configuration, over it what a schedule says of this hour, over that
// what a person set. Used by Node. Promises: every number knows who said it; what a person set survives the daemon, and
// ends when the configuration or the schedule says something new of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/configuration.hpp"
#include "config/schedule.hpp"
#include "node/state/state_file.hpp"

namespace ration::node {

struct TenantNow {
  std::string name;
  config::Amount limit, guarantee;
  std::string limit_from, guarantee_from;  ///< `/etc/ration/ration.toml:31`, `schedule of …:40`, `ops`, `default`
  bool limit_by_schedule = false;
  std::int64_t priority = 0;
  std::optional<double> soft;  ///< per cent of the limit
  std::uint64_t changes = 0;   ///< by people
};

struct TenantChange {
  std::string tenant, what;  ///< what: `limit` or `guarantee`
  std::string old_text, new_text, by;
  struct Over {
    int gpu = 0;
    Bytes used, limit;
  };
  std::vector<Over> over{};  ///< devices on which it holds more than the new limit
  bool by_schedule = false;
};

class Tenants {
 public:
  /// `file`: where what people set is kept; empty: nowhere.
  explicit Tenants(std::string file);
  /// What to tell of a damaged file; empty: it was none.
  [[nodiscard]] const std::string& lost() const { return file_.damage(); }

  /// Everything again, for this hour. Returns what a schedule, or its end, changed of limits since the last call.
  std::vector<TenantChange> update(const config::Configuration& configuration, const config::LocalTime& now);
  [[nodiscard]] const std::vector<TenantNow>& all() const { return now_; }
  [[nodiscard]] const TenantNow* find(const std::string& name) const;

  /// From now on; empty texts stay. The caller has checked them. E1531: it could not be kept, and is not changed.
  [[nodiscard]] Result<std::vector<TenantChange>> change(const std::string& name, const std::string& limit,
                                                         const std::string& guarantee, const std::string& by);

 private:
  struct Set {
    std::string text, by;
    std::string over;  ///< what configuration and schedule said then
  };
  struct Sets {
    Set limit, guarantee;
    std::uint64_t changes = 0;
  };
  void apply(TenantNow& tenant) const;
  [[nodiscard]] Result<void> save();

  StateFile file_;
  std::map<std::string, Sets> set_;
  std::vector<TenantNow> base_, now_;  // without, and with what people set
};

}  // namespace ration::node
