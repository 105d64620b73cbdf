// Stores events at once, and keeps events that could not be stored, oldest first. Used by History. Promises: an event
// has a number once it is stored, and only then; the number of waiting events is bounded, and the number of dropped
// events is reported.
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "history/database.hpp"
#include "history/sample.hpp"

namespace ration::history {

/// Stores the events and gives them their numbers. Requires that the caller has begun a transaction.
void store_events(Database& database, std::vector<Event>& events);

class EventLog {
 public:
  /// The maximum number of waiting events.
  static constexpr std::size_t kMaxKept = 10'000;
  /// A function that stores all events and gives them their numbers, or stores none.
  using Store = std::function<Result<void>(std::vector<Event>&)>;

  /// Stores the waiting events, then `events`. After an error, `events` wait as well.
  [[nodiscard]] Result<void> append(std::vector<Event>& events, const Store& store);
  [[nodiscard]] Result<void> store_kept(const Store& store);
  /// Returns the events that had to wait and were stored since the last call.
  [[nodiscard]] std::vector<Event> take_late() { return std::exchange(late_, {}); }

 private:
  void keep(const std::vector<Event>& events);

  std::deque<Event> kept_;
  struct Lost {
    std::size_t count = 0;
    TimeMs from = 0, to = 0;
  } lost_;  // the events that came while kept_ was full
  std::vector<Event> late_;
};

}  // namespace ration::history
