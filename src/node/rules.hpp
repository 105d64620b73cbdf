// The rules of the daemon, each a class in its own file (`*_rule.cpp`), which is reached only through here. `rules.cpp`
// declares the order of a tick.
#pragma once

#include <memory>
#include <vector>

#include "node/state/rule.hpp"

namespace ration::node {

// Before the snapshot: rules whose results it shows.
std::unique_ptr<Rule> schedule_rule();           ///< applies the limits of tenants in force at this hour
std::unique_ptr<Rule> unwatched_changes_rule();  ///< repeats what `ration set` changed while no daemon ran
std::unique_ptr<Rule> lifecycle_rule();          ///< reports started and ended workloads, and unreadable books
std::unique_ptr<Rule> denial_rule();             ///< reports denials, and notes when each workload allocated or freed
std::unique_ptr<Rule> wait_rule();               ///< reports charges that had to wait for room and got it
std::unique_ptr<Rule> tamper_rule();             ///< restores limits that an owner changed in a book
std::unique_ptr<Rule> suspension_rule();         ///< follows suspensions and resumptions
std::unique_ptr<Rule> balancing_rule();          ///< lowers limits when another's guarantee is used
std::unique_ptr<Rule> driver_limit_rule(const NodeOptions& options);  ///< applies the limits in the driver too

// After the snapshot: rules that judge it.
std::unique_ptr<Rule> ungoverned_rule();         ///< reports processes with device memory that are in no book
std::unique_ptr<Rule> shrinking_rule();          ///< reports workloads above a lowered limit
std::unique_ptr<Rule> orphaned_rule();           ///< reports device memory of no listed process
std::unique_ptr<Rule> unrequested_rule();        ///< charges what the driver holds beyond the book
std::unique_ptr<Rule> overuse_rule();            ///< reports processes that use more than their book was charged
std::unique_ptr<Rule> soft_limit_rule();         ///< warns of tenants above their soft limit
std::unique_ptr<Rule> ungoverned_policy_rule();  ///< warns of ungoverned processes, or ends them, as configured
std::unique_ptr<Rule> trim_rule();               ///< reports what trim requests returned
std::unique_ptr<Rule> idle_rule();               ///< reports, trims or suspends idle workloads
std::unique_ptr<Rule> standstill_rule();  ///< suspends one of several workloads that wait for each other's memory
std::unique_ptr<Rule> resume_rule();      ///< resumes suspended workloads once there is room
std::unique_ptr<Rule> alert_rule();       ///< evaluates the rules of [alerts]

using Rules = std::vector<std::unique_ptr<Rule>>;
/// In their order.
[[nodiscard]] Rules rules_before_snapshot(const NodeOptions& options);
[[nodiscard]] Rules rules_after_snapshot();

}  // namespace ration::node
