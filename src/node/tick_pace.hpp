// How soon the daemon ticks again, and which ticks on demand it affords. Used by the daemon.
// Promise: ticks on demand take at most a tenth of the time, however many ask; a short one is at hand where nobody
// asked for long.
#pragma once

#include <algorithm>

namespace ration::node {

/// All times in seconds.
class TickPace {
 public:
  static constexpr double kMaxShare = 0.1, kMaxAtHand = 0.02;

  /// Whether to tick for somebody who asks at `now`; the latest snapshot is `age` old.
  [[nodiscard]] bool affords_tick(double now, double age) {
    at_hand_ = std::min(kMaxAtHand, at_hand_ + kMaxShare * (now - since_));
    since_ = now;
    return at_hand_ >= latest_ || age > latest_ / kMaxShare;
  }
  /// That tick was made.
  void pay() { at_hand_ = std::max(0.0, at_hand_ - latest_); }

  void note_tick(double took, bool changed) { latest_ = took, busy_ = changed; }
  /// Something is about to change.
  void hurry() { busy_ = true; }
  /// Whether anything changes.
  [[nodiscard]] bool busy() const { return busy_; }

 private:
  double latest_ = 0, at_hand_ = 0, since_ = 0;
  bool busy_ = true;
};

}  // namespace ration::node
