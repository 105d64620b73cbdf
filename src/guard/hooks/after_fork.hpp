#pragma once

#include <utility>

// The state of the hooks belongs to one process: the child of a fork holds nothing, so its hooks forget everything and
// refund nothing. A source file that keeps such state registers a function that forgets it:
//
//   [[gnu::init_priority(101)]] const AfterFork forget([]() noexcept { blocks.abandon(); });

namespace ration::guard {

/// The registration of a function that forgets such state, for as long as the library is loaded. The functions run in
/// no defined order.
class AfterFork {
 public:
  using Handler = void (*)() noexcept;

  explicit AfterFork(Handler forget) noexcept : forget_(forget), next_(std::exchange(first_, this)) {}
  AfterFork(const AfterFork&) = delete;
  AfterFork& operator=(const AfterFork&) = delete;

  /// Forgets everything in the child before its first governed driver call, on one thread at a time.
  static void run() noexcept {
    for (const AfterFork* each = first_; each != nullptr; each = each->next_) each->forget_();
  }

 private:
  static constinit inline const AfterFork* first_ = nullptr;

  const Handler forget_;
  const AfterFork* const next_;
};

}  // namespace ration::guard
