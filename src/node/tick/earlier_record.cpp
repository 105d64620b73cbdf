#include "node/tick/earlier_record.hpp"

#include <algorithm>

namespace ration::node {

bool EarlierRecord::report(const Moment& moment, const Workload& workload, Event event, Events& events) const {
  const auto& taken_up = moment.changes.started;
  const bool new_here = std::find(taken_up.begin(), taken_up.end(), workload.path) != taken_up.end();
  if (new_here && has(event)) return false;
  events.push_back(std::move(event));
  return true;
}

}  // namespace ration::node
