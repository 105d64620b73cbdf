#include "node/rules/tamper.hpp"

#include <fmt/format.h>

namespace ration::node {

using history::Event;
using history::plain_event;

void TamperRule::run(NodeState& state, Events& events) {
  std::vector<std::string> failed;
  for (const Alteration& altered : state.limits.enforce(state.registry, failed)) {
    const Workload& workload = state.registry.workloads().at(altered.path);
    Event event = event_of(state, workload, "violation",
                           fmt::format("{}/{} changed its own {} to {}; it was put back to {}", workload.book.tenant,
                                       workload.book.name, altered.is_guarantee ? "guarantee" : "limit",
                                       format_size(altered.found), format_size(altered.owned)));
    event.old_value = std::to_string(altered.found.count());
    event.new_value = std::to_string(altered.owned.count());
    event.gpu = gpu_of(state, workload.book.accounts[altered.account].device);
    events.push_back(std::move(event));
  }
  for (const std::string& book : failed)
    events.push_back(plain_event("guard_lost", "a limit cannot be written: " + book));
}

}  // namespace ration::node
