// The rules of the daemon, each a class in a file of its own (`*_rule.cpp`), which is reached through here alone.
// `rules.cpp` has the order in which a tick runs them.
#pragma once

#include <memory>
#include <vector>

#include "node/state/rule.hpp"

namespace ration::node {

// Before the snapshot: they write what it will show.
std::unique_ptr<Rule> schedule_rule();           ///< applies the limits of tenants that hold at this hour
std::unique_ptr<Rule> unwatched_changes_rule();  ///< asks again for what `ration set` changed while no daemon ran
std::unique_ptr<Rule> lifecycle_rule();          ///< reports workloads that began or ended, and unreadable books
std::unique_ptr<Rule> denial_rule();             ///< reports denials, and notes what each workload took and gave back
std::unique_ptr<Rule> wait_rule();               ///< reports charges that sleep until there is room, and that get it
std::unique_ptr<Rule> tamper_rule();             ///< puts back limits that a book's owner wrote into it
std::unique_ptr<Rule> suspension_rule();         ///< follows memory that leaves its device or comes back
std::unique_ptr<Rule> balancing_rule();          ///< lowers limits while another's guarantee is taken up
std::unique_ptr<Rule> driver_limit_rule(const NodeOptions& options);  ///< holds the same limits in the driver

// After the snapshot: they judge it.
std::unique_ptr<Rule> ungoverned_rule();         ///< reports processes with memory on a device that are in no book
std::unique_ptr<Rule> shrinking_rule();          ///< reports workloads that hold more than a limit that was lowered
std::unique_ptr<Rule> orphaned_rule();           ///< reports device memory of which the driver lists no process
std::unique_ptr<Rule> unrequested_rule();        ///< charges what the driver holds for a workload beyond its book
std::unique_ptr<Rule> overuse_rule();            ///< reports processes that use more than their book was charged
std::unique_ptr<Rule> soft_limit_rule();         ///< warns tenants that hold more than that share of their limit
std::unique_ptr<Rule> ungoverned_policy_rule();  ///< warns or ends ungoverned processes, as the configuration says
std::unique_ptr<Rule> trim_rule();               ///< reports what requests to return unused memory brought
std::unique_ptr<Rule> idle_rule();               ///< reports, trims or suspends workloads that do nothing
std::unique_ptr<Rule> standstill_rule();         ///< suspends one of several programs that wait for each other's memory
std::unique_ptr<Rule> return_rule();             ///< brings suspended workloads back once there is room
std::unique_ptr<Rule> alert_rule();              ///< evaluates the rules of [alerts]

using Rules = std::vector<std::unique_ptr<Rule>>;
/// In the order in which they run.
[[nodiscard]] Rules rules_before_snapshot(const NodeOptions& options);
[[nodiscard]] Rules rules_after_snapshot();

}  // namespace ration::node
