// Threads that sleep until bytes come back. Used by the guard, and by the library that gives memory back for them.
// Waiting is a view of a book and is passed by value.
#pragma once

#include <cstdint>

#include "base/bytes.hpp"
#include "book/line.hpp"
#include "book/open_book.hpp"

namespace ration::book {

class Waiting {
 public:
  explicit Waiting(const OpenBook& book) noexcept : book_(&book) {}

  /// Begins a wait of this process. Until end() is called, refunds and raised limits wake the wait.
  void begin(std::uint32_t account, Bytes wanted) const noexcept;
  void end() const noexcept;
  /// Returns the calling thread's place in the account's line. The thread renews the place if refunds can free the
  /// wanted memory.
  [[nodiscard]] PlaceInLine place_in_line(std::uint32_t account) const noexcept { return {*book_, account}; }
  [[nodiscard]] bool others_come_first(std::uint32_t account) const noexcept;
  /// Counts a request that waited and got its memory. If the wait ends with this request, this must be called before
  /// end().
  void count_granted() const noexcept;
  /// Sleeps until bytes may have come back or `timeout_ns` has passed. `seen` is the value of generation() before the
  /// charge that failed. Must be called between begin() and end().
  void wait_for_change(std::uint32_t seen, std::uint64_t timeout_ns) const noexcept;
  [[nodiscard]] std::uint32_t generation() const noexcept;
  /// Returns true if some process of the workload sleeps until bytes come back.
  [[nodiscard]] bool has_waiters() const noexcept;

  /// Wakes waiting threads after bytes came back or a limit was changed.
  void wake() const noexcept;
  /// Counts the waiting threads of living processes again. Until then, a process that died while it waited costs every
  /// refund one system call.
  void forget_dead() const noexcept;

 private:
  const OpenBook* book_;
};

}  // namespace ration::book
