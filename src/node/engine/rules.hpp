// The rules of a tick. `rules.cpp` declares the order in which they run. Each rule is a class in a `*_rule.cpp` of its
// subject.
#pragma once

#include <memory>
#include <vector>

#include "node/engine/subjects.hpp"
#include "node/tick/rule.hpp"

namespace ration::node {

using Rules = std::vector<std::unique_ptr<Rule>>;

struct TickRules {
  Rules before_snapshot;  ///< rules whose results the snapshot shows
  Rules after_snapshot;   ///< rules that judge the snapshot
};

/// Returns all rules in their order. `snapshot` must be the snapshot of the moment, because two of the rules correct
/// it.
[[nodiscard]] TickRules rules_of_tick(Subjects& subjects, Snapshot& snapshot, const EarlierRecord& earlier);

}  // namespace ration::node
