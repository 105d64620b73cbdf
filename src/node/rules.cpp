#include "node/rules.hpp"

namespace ration::node {

namespace {

template <typename... Each>
Rules in_order(Each... rules) {
  Rules order;
  (order.push_back(std::move(rules)), ...);
  return order;
}

}  // namespace

Rules rules_before_snapshot(const NodeOptions& options) {
  return in_order(schedule_rule(), unwatched_changes_rule(), lifecycle_rule(), denial_rule(), wait_rule(),
                  tamper_rule(), suspension_rule(), balancing_rule(), driver_limit_rule(options));
}

Rules rules_after_snapshot() {
  return in_order(ungoverned_rule(), shrinking_rule(), orphaned_rule(), unrequested_rule(), overuse_rule(),
                  soft_limit_rule(), ungoverned_policy_rule(), trim_rule(), idle_rule(), standstill_rule(),
                  resume_rule(), alert_rule());
}

}  // namespace ration::node
