// Reports moves of limits, which are delayed so that many are one event.
#pragma once

#include "node/limits/limit_moves.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

/// Reports delayed limit changes of the workload now, so that they precede their consequences.
void report_limit_moves(const Moment& moment, LimitMoves& moves, const Workload& workload, Events& events);
void report_limit_move(const Moment& moment, const Workload& workload, const LimitMoves::Burst& burst, Events& events);

}  // namespace ration::node
