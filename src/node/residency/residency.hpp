// Suspension, resumption and trim of a workload: the steps that rules and requests share.
#pragma once

#include <string>
#include <vector>

#include "node/state/node_state.hpp"

namespace ration::node {

/// Finds the workload's processes in this pid namespace. E1547: there is none, or one is invisible or not its owner's.
[[nodiscard]] Result<std::vector<ProcessIdentity>> processes_of(const NodeState& state, const Workload& workload);
/// Returns the processes with these numbers in this pid namespace. E1547 as above.
[[nodiscard]] Result<std::vector<ProcessIdentity>> own_processes(const Workload& workload,
                                                                 const std::vector<std::int32_t>& pids);
/// Starts a suspension. `by_person`: only a person resumes it. E1546 E1547 E1531.
[[nodiscard]] Result<void> begin_suspension(NodeState& state, const Workload& workload, bool by_person);
/// Notes the usage before a trim, whose result is reported two seconds later. `by`: the requester.
void begin_trim(NodeState& state, const Workload& workload, const std::string& by);
/// Marks a suspended workload as having room for its resume.
void approve_resume(NodeState& state, const std::string& path);
/// Writes into the workload's book whether its guarantees count.
void set_guarantee_lapsed(NodeState& state, const Workload& workload, OwnedWorkload& owned, bool lapsed,
                          Events& events);

}  // namespace ration::node
