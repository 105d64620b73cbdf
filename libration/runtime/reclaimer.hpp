// The reclaimer, which gives unused memory back when it is needed elsewhere (another process of the workload was denied
// or waits, the workload holds more than its lowered limit, or an operator runs `ration trim`), or when the program has
// requested nothing for a while. Used by runtime.cpp.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "book/book.hpp"

namespace ration::runtime {

/// A thread that checks ten times a second. It is made only if there is something to check: a workload's book
/// (RATION_BOOK, which `ration run` sets) or an idle time (RATION_IDLE_TRIM=30s).
class Reclaimer {
 public:
  struct End {
    /// Deletes the reclaimer in the process that started it. In the child of a fork the thread does not exist, but the
    /// condition variable still counts it as a waiter and its destructor would wait for ever; so the child leaks the
    /// reclaimer.
    void operator()(Reclaimer* reclaimer) const;
  };
  using Owner = std::unique_ptr<Reclaimer, End>;
  /// Starts the thread, which calls all three functions. It calls `pressure` when memory is needed elsewhere, before
  /// `trim` gives back free memory; `requests` returns the number of requests so far. Returns null if there is nothing
  /// to check.
  static Owner start(std::function<void()> pressure, std::function<void()> trim,
                     std::function<std::uint64_t()> requests);
  ~Reclaimer();
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

 private:
  Reclaimer(std::function<void()> pressure, std::function<void()> trim, std::function<std::uint64_t()> requests);
  void look_after();
  [[nodiscard]] bool somebody_needs_memory();

  std::function<void()> pressure_, trim_;
  std::function<std::uint64_t()> requests_;
  book::Book book_;
  std::uint64_t denials_seen_ = 0, trims_seen_ = 0;
  std::optional<std::uint64_t> idle_ns_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::uint64_t process_;  // own_process() of the process that started the thread
  std::thread thread_;
};

}  // namespace ration::runtime
