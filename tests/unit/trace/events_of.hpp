// The events of a recording in a list, for tests.
#pragma once

#include <vector>

#include "trace/event.hpp"

namespace ration::trace {

inline std::vector<Event> events_of(const Recording& recording) {
  std::vector<Event> events;
  recording.read([&](const Event& event) {
    events.push_back(event);
    return true;
  });
  return events;
}

}  // namespace ration::trace
