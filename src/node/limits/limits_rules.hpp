// The rules of limits. `engine/rules.cpp` declares when they run.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "node/limits/activity.hpp"
#include "node/limits/demand.hpp"
#include "node/limits/denials.hpp"
#include "node/limits/driver_limits.hpp"
#include "node/limits/limit_moves.hpp"
#include "node/limits/limit_room.hpp"
#include "node/limits/limits.hpp"
#include "node/limits/policies.hpp"
#include "node/limits/unchecked_guarantees.hpp"
#include "node/promises/promises.hpp"
#include "node/tick/rule.hpp"

namespace ration::node {

/// Repeats the changes that `ration set` made while no daemon ran.
std::unique_ptr<Rule> unwatched_changes_rule(Limits& limits, LimitMoves& moves, UncheckedGuarantees& unchecked,
                                             const DevicePromises& promises);
/// Reports denials, and notes what each workload demands and when it last allocated or freed memory.
std::unique_ptr<Rule> denial_rule(Denials& denials, RecentDenials& recent, Demand& demand, Activity& activity);
/// Finds the limits of pinned host memory that policies set.
std::unique_ptr<Rule> host_limit_rule(Limits& limits, Policies& policies);
/// Restores limits that an owner changed in a book.
std::unique_ptr<Rule> tamper_rule(Limits& limits);
/// A function that returns true while the workload whose book is at `path` has its memory on the host.
using IsSuspended = std::function<bool(const std::string& path)>;
/// Subjects of the balance. The balance changes the subjects that are not const.
struct BalancingSubjects {
  Limits& limits;
  LimitMoves& moves;
  Balances& balances;
  Policies& policies;
  const Activity& activity;
  const Demand& demand;
  const UncheckedGuarantees& unchecked;
  const Tenants& tenants;
  const ContainerClaims& claims;
  const DevicePromises& promises;
  IsSuspended is_suspended;
};
/// Lowers the limits of workloads when another workload uses a guarantee of its own.
std::unique_ptr<Rule> balancing_rule(BalancingSubjects subjects);
/// Applies the limits in the driver too.
std::unique_ptr<Rule> driver_limit_rule(const Limits& limits, DriverLimits& driver_limits);
/// Withdraws unchecked guarantees that cannot be kept. From then on, the other guarantees count in `snapshot`, which
/// must be the snapshot of the moment.
std::unique_ptr<Rule> guarantee_rule(Snapshot& snapshot, Limits& limits, LimitMoves& moves,
                                     UncheckedGuarantees& unchecked, const DevicePromises& promises);
/// Reports workloads above a lowered limit.
std::unique_ptr<Rule> shrinking_rule(LimitMoves& moves);

}  // namespace ration::node
