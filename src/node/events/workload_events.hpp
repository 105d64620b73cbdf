// Events of a workload that several rules or requests report.
#pragma once

#include <string>
#include <vector>

#include "node/state/node_state.hpp"

namespace ration::node {

/// Adds an event with its own time. Skips it, and returns false, if the workload is new to this daemon and an earlier
/// daemon recorded it.
bool report(const NodeState& state, const Workload& workload, Event event, Events& events);
void report_started(const NodeState& state, const Workload& workload, Events& events);
/// Describes a denial. `running`: the workload still runs, so that its limit can be raised.
[[nodiscard]] Event denial_event(const NodeState& state, const Workload& workload, const book::Denial& denial,
                                 bool running);
/// Reports the denials that are new since the last refresh, and sums up `demand`.
void report_denials(NodeState& state, const Workload& workload, Events& events);
/// Reports delayed limit changes of the workload now, so that they precede their consequences.
void report_limit_moves(NodeState& state, const Workload& workload, Events& events);
void report_limit_move(const NodeState& state, const Workload& workload, LimitMoves::Burst burst, Events& events);
/// Returns the command for a denial of `asker`'s running workload; empty: it has ended or is unknown.
[[nodiscard]] std::string fix_now(const NodeState& state, const std::string& denial, const std::string& asker);

}  // namespace ration::node
