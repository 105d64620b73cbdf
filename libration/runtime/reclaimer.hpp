// Gives unused memory back when it is needed elsewhere: another process of the workload was denied or waits, the
// workload's limit was lowered below what it holds, a person asked for it (`ration trim`), or nothing was asked for in
// a while. Used by runtime.cpp.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "book/book.hpp"

namespace ration::runtime {

/// A thread that checks ten times a second. Made only if there is something to check: a workload's book (RATION_BOOK,
/// which `ration run` sets) or an idle time (RATION_IDLE_TRIM=30s).
class Reclaimer {
 public:
  struct End {
    /// Deletes it in the process that started it. In the child of a fork its thread does not exist, and its condition
    /// variable still counts that thread as a waiter: destroying it would wait for ever, so it is left alone.
    void operator()(Reclaimer* reclaimer) const;
  };
  using Owner = std::unique_ptr<Reclaimer, End>;
  /// `pressure` is called when memory is needed elsewhere, before `trim` gives back free memory; `requests` returns the
  /// count of requests so far. All are called from the thread. Returns null if there is nothing to check.
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
  std::uint64_t process_;  // forks before it: the child of one has no such thread
  std::thread thread_;
};

}  // namespace ration::runtime
