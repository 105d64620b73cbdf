#include "node/engine/rules.hpp"

#include "node/limits/limits_rules.hpp"
#include "node/queue/queue_rules.hpp"
#include "node/recordings/recordings.hpp"
#include "node/residency/residency_rules.hpp"
#include "node/tenants/tenants_rules.hpp"
#include "node/watch/watch_rules.hpp"

namespace ration::node {

TickRules rules_of_tick(Subjects& subjects, Snapshot& snapshot, const EarlierRecord& earlier) {
  auto& [tenants, schedules, allowed, claims, promises, records, residency, recordings] = subjects;
  auto& [limits, driver_limits, moves, balances, activity, demand, recent_denials, policies, unchecked, denials] =
      records;
  const auto is_suspended = [&suspension = residency.suspension()](const std::string& path) {
    return suspension.is_suspended(path);
  };
  TickRules rules;
  const auto first = [&](std::unique_ptr<Rule> rule) { rules.before_snapshot.push_back(std::move(rule)); };
  first(schedule_rule(tenants, schedules));
  first(unwatched_changes_rule(limits, moves, unchecked, promises));
  first(lifecycle_rule({limits, moves, unchecked, denials, recent_denials}, earlier));
  first(denial_rule(denials, recent_denials, demand, activity));
  first(wait_rule(moves));
  first(host_limit_rule(limits, policies));
  first(tamper_rule(limits));
  first(suspension_rule(residency, limits, activity, unchecked));
  first(balancing_rule(
      {limits, moves, balances, policies, activity, demand, unchecked, tenants, claims, promises, is_suspended}));
  first(driver_limit_rule(limits, driver_limits));

  const auto then = [&](std::unique_ptr<Rule> rule) { rules.after_snapshot.push_back(std::move(rule)); };
  then(guarantee_rule(snapshot, limits, moves, unchecked, promises));
  then(ungoverned_rule());
  then(shrinking_rule(moves));
  then(orphaned_rule());
  then(unrequested_rule(limits));
  then(overuse_rule(snapshot));
  then(soft_limit_rule(tenants));
  then(ungoverned_policy_rule());
  then(trim_rule(residency));
  then(pressure_rule(residency, demand));
  then(idle_rule(residency, limits, policies, activity));
  then(standstill_rule(residency, limits, tenants, policies));
  then(resume_rule(residency, limits));
  then(alert_rule(recent_denials, promises));
  then(recordings_rule(recordings));
  return rules;
}

}  // namespace ration::node
