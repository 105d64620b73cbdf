// Threads that sleep until bytes come back. Used by the shim, and the library that gives memory back for them. A view
// of a book, by value.
#pragma once

#include <cstdint>

#include "base/bytes.hpp"
#include "ledger/line.hpp"
#include "ledger/open_book.hpp"

namespace ration::ledger {

class Waiting {
 public:
  explicit Waiting(const OpenBook& book) noexcept : book_(&book) {}

  /// While this process means to sleep until bytes come back: between the two, refunds and raised limits wake it.
  void begin(std::uint32_t account, Bytes wanted) const noexcept;
  void end() const noexcept;
  /// The calling thread's place in the account's line, while it waits for memory that refunds can bring.
  [[nodiscard]] PlaceInLine place_in_line(std::uint32_t account) const noexcept { return {*book_, account}; }
  [[nodiscard]] bool others_come_first(std::uint32_t account) const noexcept;
  /// A request that had waited got its memory. Before end() where the waiting ends with it.
  void count_granted() const noexcept;
  /// Sleeps until bytes may have come back or `timeout_ns` has passed. `seen` is generation() from before the charge
  /// that failed; call it between begin() and end().
  void wait_for_change(std::uint32_t seen, std::uint64_t timeout_ns) const noexcept;
  [[nodiscard]] std::uint32_t generation() const noexcept;
  /// Whether some process of the workload sleeps until bytes come back.
  [[nodiscard]] bool somebody() const noexcept;

  /// Bytes came back, or a limit was changed.
  void wake() const noexcept;
  /// Counts again, among the living. Who dies while it waits stays counted until then; that costs every refund a system
  /// call, and no more.
  void forget_dead() const noexcept;

 private:
  const OpenBook* book_;
};

}  // namespace ration::ledger
