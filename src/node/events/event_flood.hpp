// Prevents a single user from filling the record of events. Excess events are dropped before they are stored or sent,
// and one event reports their number.
// Promise: of the events that one user's programs cause, at most kMaxPerMinute a minute are recorded; the number of
// dropped events is reported when the minute ends.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "node/events/event.hpp"

namespace ration::node {

class EventFlood {
 public:
  /// The most events of one user in a minute. An array of hundreds of jobs may start and end within a minute.
  static constexpr std::size_t kMaxPerMinute = 1'200;

  /// Removes the excess, and adds the reports of minutes that ended. `now` is in milliseconds.
  void limit(Events& events, history::TimeMs now);

 private:
  struct Minute {
    history::TimeMs begins = 0;
    std::size_t passed = 0;
    std::map<EventType, std::size_t> dropped;
  };
  std::map<std::string, Minute> users_;
};

}  // namespace ration::node
