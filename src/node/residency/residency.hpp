// Moving a workload's memory to the host and asking it to give back what it does not use: what rules and commands
// share.
#pragma once

#include <string>
#include <vector>

#include "node/state/node_state.hpp"

namespace ration::node {

/// As this pid namespace knows them. E1547: one cannot be seen, or is not its owner's; or there is none.
[[nodiscard]] Result<std::vector<ProcessIdentity>> processes_of(const NodeState& state, const Workload& workload);
/// Begins to move it away; `held`: until a person wants it back. E1546 E1547 E1531.
[[nodiscard]] Result<void> begin_suspension(NodeState& state, const Workload& workload, bool held);
/// Notes what it holds, so that it can be told two seconds later what it gave back. `by`: who asked it to.
void begin_trim(NodeState& state, const Workload& workload, const std::string& by);
/// There is room for one that asked for its place again.
void approve_resume(NodeState& state, const std::string& path);
/// Writes into its book whether its promises count.
void set_away(NodeState& state, const Workload& workload, OwnedWorkload& owned, bool away, Events& events);

}  // namespace ration::node
