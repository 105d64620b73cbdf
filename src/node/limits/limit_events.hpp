// Reports moves of limits. The reports are delayed, so that many moves make one event.
#pragma once

#include "node/limits/limit_moves.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

/// Reports the delayed moves of the workload's limits now, so that a move is reported before the events that it caused.
void report_limit_moves(const Moment& moment, LimitMoves& moves, const Workload& workload, Events& events);
void report_limit_move(const Moment& moment, const Workload& workload, const LimitMoves::Burst& burst, Events& events);

}  // namespace ration::node
