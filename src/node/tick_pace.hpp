// Decides how soon the daemon ticks again, and whether it can afford a tick that a client demands.
// Promise: ticks on demand take at most a tenth of the time, however many clients ask; after a quiet time a short tick
// is always affordable.
#pragma once

#include <algorithm>

namespace ration::node {

/// The pace of ticks. All times are in seconds.
class TickPace {
 public:
  static constexpr double kMaxShare = 0.1, kMaxBudget = 0.02;

  /// Returns true if a client's question at `now` may trigger a tick. `age` is the age of the latest snapshot.
  [[nodiscard]] bool affords_tick(double now, double age) {
    budget_ = std::min(kMaxBudget, budget_ + kMaxShare * (now - since_));
    since_ = now;
    return budget_ >= latest_ || age > latest_ / kMaxShare;
  }
  /// Subtracts the duration of the latest tick from the budget.
  void pay() { budget_ = std::max(0.0, budget_ - latest_); }

  void note_tick(double took, bool changed) { latest_ = took, busy_ = changed; }
  /// Makes the next tick come at the faster rate, because a change is expected.
  void hurry() { busy_ = true; }
  /// Returns true if anything changed, or a change is expected.
  [[nodiscard]] bool busy() const { return busy_; }

 private:
  double latest_ = 0, budget_ = 0, since_ = 0;
  bool busy_ = true;
};

}  // namespace ration::node
