#pragma once

#include <utility>

// What the hooks remember of a process belongs to that process: the child of a fork holds nothing, so its hooks forget
// all of it, and refund none of it. A file that keeps such state says how it is forgotten:
//
//   [[gnu::init_priority(101)]] const AfterFork forget([]() noexcept { blocks.abandon(); });

namespace ration::shim {

/// Registers one way of forgetting, for as long as the library is loaded. The order among several is not defined.
class AfterFork {
 public:
  using Handler = void (*)() noexcept;

  explicit AfterFork(Handler forget) noexcept : forget_(forget), next_(std::exchange(first_, this)) {}
  AfterFork(const AfterFork&) = delete;
  AfterFork& operator=(const AfterFork&) = delete;

  /// In the child, before its first call to the driver is governed; one thread at a time.
  static void run() noexcept {
    for (const AfterFork* each = first_; each != nullptr; each = each->next_) each->forget_();
  }

 private:
  static constinit inline const AfterFork* first_ = nullptr;

  const Handler forget_;
  const AfterFork* const next_;
};

}  // namespace ration::shim
