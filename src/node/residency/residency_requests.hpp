// `ration suspend`, `resume` and `trim`: moving a workload's memory, and asking it to give some back.
#pragma once

#include <string>
#include <vector>

#include "node/state/caller.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

/// Moves a running workload's memory to the host until somebody wants it back. E1801 E1502; E1546: it is on its way
/// already; E1547: not possible now.
[[nodiscard]] Result<void> suspend(NodeState& state, const std::string& name, const Caller& caller, Events& events);
/// It comes back as soon as there is room. E1801 E1502; E1546: it is not suspended.
[[nodiscard]] Result<void> resume(NodeState& state, const std::string& name, const Caller& caller);
/// Asks its cooperating programs to give back what they do not use; what came of it is an event two seconds later.
/// E1801 E1502 E1411.
[[nodiscard]] Result<void> trim(NodeState& state, const std::string& name, const Caller& caller);

}  // namespace ration::node
