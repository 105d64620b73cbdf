// Requests of `ration suspend`, `resume` and `trim`.
#pragma once

#include <string>
#include <vector>

#include "node/state/caller.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

/// Moves a workload's memory to the host until a person resumes it. E1801 E1502; E1546: it is suspended or moving
/// already; E1547: not possible now.
[[nodiscard]] Result<void> suspend(NodeState& state, const std::string& name, const Caller& caller, Events& events);
/// Resumes a workload as soon as there is room. E1801 E1502; E1546: it is not suspended.
[[nodiscard]] Result<void> resume(NodeState& state, const std::string& name, const Caller& caller);
/// Asks the workload's co-operating programs to free unused memory. An event reports the result two seconds later.
/// E1801 E1502 E1411.
[[nodiscard]] Result<void> trim(NodeState& state, const std::string& name, const Caller& caller);

}  // namespace ration::node
