#include "node/rules/ungoverned.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ration::node {

using history::Event;
using history::plain_event;

void UngovernedRule::run(NodeState& state, Events& events) {
  // Its book may have been made between the reading of the books and that of the driver: the second tick tells.
  std::map<std::pair<int, std::int32_t>, bool> present;
  for (const UngovernedView& view : state.snapshot.ungoverned) {
    const auto known = known_.find({view.gpu, view.process.pid});
    const bool seen_before = known != known_.end();
    present[{view.gpu, view.process.pid}] = seen_before;
    if (!seen_before || known->second) continue;
    Event event = plain_event(
        "ungoverned", fmt::format("pid {} ({}, {}) holds {} on GPU {}, {}{}", view.process.pid,
                                  view.process.command.empty() ? "n/a" : view.process.command, view.process.user,
                                  view.process.driver_used ? format_size(*view.process.driver_used)
                                                           : fmt::format("n/a ({})", view.process.untold),
                                  view.gpu, view.why(),
                                  view.container.empty() ? view.origin.empty() ? "" : ": " + view.origin
                                                         : ": container " + view.container));
    event.gpu = view.gpu;
    event.pid = view.process.pid;
    event.user = view.process.user;
    if (view.process.driver_used) event.bytes = static_cast<std::int64_t>(view.process.driver_used->count());
    event.fix = "ration run --limit SIZE -- …";
    events.push_back(std::move(event));
  }
  known_ = std::move(present);
}

bool UngovernedRule::is_unsettled() const {
  return std::any_of(known_.begin(), known_.end(), [](const auto& each) { return !each.second; });
}

}  // namespace ration::node
