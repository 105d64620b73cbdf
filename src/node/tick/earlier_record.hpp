// The events that an earlier daemon recorded, so that a restarted daemon reports nothing twice.
#pragma once

#include <functional>

#include "node/tick/moment.hpp"

namespace ration::node {

struct EarlierRecord {
  /// The time of the earlier daemon's last sample; 0 if there is none.
  history::TimeMs recorded_to = 0;
  /// Returns true if the earlier daemon recorded that event.
  std::function<bool(const Event& event)> has = [](const Event&) { return false; };

  /// Adds an event that has its own time. Skips it, and returns false, if the workload is new to this daemon and an
  /// earlier daemon recorded the event.
  bool report(const Moment& moment, const Workload& workload, Event event, Events& events) const;
};

}  // namespace ration::node
