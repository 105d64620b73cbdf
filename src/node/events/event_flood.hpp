// Keeps one user from filling the record of events: excess events are counted and reported as one, before events are
// stored and sent.
// Promise: at most kMaxPerMinute events a minute are recorded of those that a user's programs cause; the number of
// dropped ones is reported when the minute ends.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "node/events/event.hpp"

namespace ration::node {

class EventFlood {
 public:
  /// The most events of one user in a minute; an array of hundreds of jobs may start and end within one.
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
