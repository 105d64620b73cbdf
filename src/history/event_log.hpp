// Events that are stored at once, and those that could not be: they wait, the oldest first. Used by History.
// Promises: an event has a number once it is stored, and only then; what waits is bounded, and of what is lost then the
// number is told.
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "history/database.hpp"
#include "history/sample.hpp"

namespace ration::history {

/// Inside a transaction: gives the events their numbers.
void store_events(Database& database, std::vector<Event>& events);

class EventLog {
 public:
  /// How many wait at most.
  static constexpr std::size_t kMaxKept = 10'000;
  /// Stores all of them and gives them their numbers, or stores none.
  using Store = std::function<Result<void>(std::vector<Event>&)>;

  /// Those that wait, then these. After an error these wait, too.
  [[nodiscard]] Result<void> append(std::vector<Event>& events, const Store& store);
  [[nodiscard]] Result<void> store_kept(const Store& store);
  /// Those that were stored late, since the last call.
  [[nodiscard]] std::vector<Event> take_late() { return std::exchange(late_, {}); }

 private:
  void keep(const std::vector<Event>& events);

  std::deque<Event> kept_;
  struct Lost {
    std::size_t count = 0;
    TimeMs from = 0, to = 0;
  } lost_;  // those that came when kept_ was full
  std::vector<Event> late_;
};

}  // namespace ration::history
