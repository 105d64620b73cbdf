#include "node/limits/limit_events.hpp"

namespace ration::node {

void report_limit_moves(const Moment& moment, LimitMoves& moves, const Workload& workload, Events& events) {
  for (const LimitMoves::Burst& burst : moves.take_for(workload.path))
    report_limit_move(moment, workload, burst, events);
}

void report_limit_move(const Moment& moment, const Workload& workload, const LimitMoves::Burst& burst, Events& events) {
  const auto& device = workload.book.accounts[burst.account.second].device;
  events.push_back(rebalanced_event(event_subject(moment, workload, device),
                                    {burst.from, burst.to, burst.reason, burst.count,
                                     moment.time_of_day_at(burst.first_ns), moment.time_of_day_at(burst.last_ns)}));
}

}  // namespace ration::node
