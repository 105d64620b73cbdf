// No user fills the record of events: what is beyond a measure is counted and told as one event. Used by the daemon,
// before events are stored and sent.
// Promise: of one user no more than kMaxPerMinute events of a kind that programs cause are let through in a minute; of
// whatever is left out the number is told once the minute is over.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "node/events/event.hpp"

namespace ration::node {

class EventFlood {
 public:
  /// Of one user in a minute: an array of hundreds of jobs may begin and end within it.
  static constexpr std::size_t kMaxPerMinute = 1'200;

  /// Takes out what is too much, and adds what was left out of minutes that are over. `now`: milliseconds.
  void limit(Events& events, history::TimeMs now);

 private:
  struct Minute {
    history::TimeMs begins = 0;
    std::size_t let_through = 0;
    std::map<EventType, std::size_t> left_out;
  };
  std::map<std::string, Minute> users_;
};

}  // namespace ration::node
