// The rules that watch and report. `engine/rules.cpp` declares when they run.
#pragma once

#include <memory>

#include "node/limits/demand.hpp"
#include "node/limits/denials.hpp"
#include "node/limits/unchecked_guarantees.hpp"
#include "node/promises/promises.hpp"
#include "node/tick/earlier_record.hpp"
#include "node/tick/rule.hpp"

namespace ration::node {

/// Subjects that change when a workload starts or ends.
struct LifecycleSubjects {
  Limits& limits;
  LimitMoves& moves;
  UncheckedGuarantees& unchecked;
  Denials& denials;
  RecentDenials& recent_denials;
};
/// Reports workloads that started or ended, and unreadable books.
std::unique_ptr<Rule> lifecycle_rule(LifecycleSubjects subjects, EarlierRecord earlier);
/// Reports processes with device memory that are in no book.
std::unique_ptr<Rule> ungoverned_rule();
/// Reports device memory that belongs to no process that the driver lists.
std::unique_ptr<Rule> orphaned_rule();
/// Charges memory that the driver holds for a workload beyond its book.
std::unique_ptr<Rule> unrequested_rule(const Limits& limits);
/// Reports processes that use more than was charged to their book. The excess then counts as usage of the workload in
/// `snapshot`, which must be the snapshot of the moment.
std::unique_ptr<Rule> overuse_rule(Snapshot& snapshot);
/// Warns of ungoverned processes, or ends them, as configured.
std::unique_ptr<Rule> ungoverned_policy_rule();
/// Evaluates the rules of [alerts].
std::unique_ptr<Rule> alert_rule(RecentDenials& recent_denials, const DevicePromises& promises);

}  // namespace ration::node
