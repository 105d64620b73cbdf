// Events that more than one rule or command tells of a workload.
#pragma once

#include <string>
#include <vector>

#include "node/state/node_state.hpp"

namespace ration::node {

/// Adds an event with the time that the book says. One of a workload that this tick took up is left out where a daemon
/// before this one recorded it.
void report(const NodeState& state, const Workload& workload, Event event, Events& events);
void report_started(const NodeState& state, const Workload& workload, Events& events);
/// `running`: the workload still runs, so that its limit can be changed.
[[nodiscard]] Event denial_event(const NodeState& state, const Workload& workload, const book::Denial& denial,
                                 bool running);
/// Those that are new in the latest refresh of its book; also notes what was wanted.
void report_denials(NodeState& state, const Workload& workload, Events& events);
/// The changes of its limit that were held back so far, before whatever may have come of them.
void report_limit_moves(NodeState& state, const Workload& workload, Events& events);
void report_limit_move(const NodeState& state, const Workload& workload, LimitMoves::Burst burst, Events& events);
/// What to type about a denial of a workload of `asker` that still runs; empty: it does not, or is not known.
[[nodiscard]] std::string fix_now(const NodeState& state, const std::string& denial, const std::string& asker);

}  // namespace ration::node
