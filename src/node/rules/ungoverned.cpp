#include "node/rules/ungoverned.hpp"

#include <algorithm>

namespace ration::node {

void UngovernedRule::run(NodeState& state, Events& events) {
  // Its book may have been made between the reading of the books and that of the driver: the second tick tells.
  std::map<std::pair<int, std::int32_t>, bool> present;
  for (const UngovernedView& view : state.snapshot.ungoverned) {
    const auto known = known_.find({view.gpu, view.process.pid});
    const bool seen_before = known != known_.end();
    present[{view.gpu, view.process.pid}] = seen_before;
    if (!seen_before || known->second) continue;
    events.push_back(ungoverned_event(view));
  }
  known_ = std::move(present);
}

bool UngovernedRule::is_unsettled() const {
  return std::any_of(known_.begin(), known_.end(), [](const auto& each) { return !each.second; });
}

}  // namespace ration::node
