// The rules of a tick. `rules.cpp` declares their one order; each is a class in the `*_rule.cpp` of its subject.
#pragma once

#include <memory>
#include <vector>

#include "node/engine/subjects.hpp"
#include "node/tick/rule.hpp"

namespace ration::node {

using Rules = std::vector<std::unique_ptr<Rule>>;

struct TickRules {
  Rules before_snapshot;  ///< those whose results it shows
  Rules after_snapshot;   ///< those that judge it
};

/// Returns all rules in their order. `snapshot`: the moment's own, which two of them correct.
[[nodiscard]] TickRules rules_of_tick(Subjects& subjects, Snapshot& snapshot, const EarlierRecord& earlier);

}  // namespace ration::node
