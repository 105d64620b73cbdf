// The line of the threads that wait for memory of one account: in order of arrival, over all processes of the workload.
// Used by charges, and by the shim while it waits.
//
// Without it a large request starves: whatever is freed is taken again by small ones before a sleeping thread wakes.
// A charge is therefore behind while an earlier thread waits, even where it would fit. But that thread may wait for
// what the one behind it is about to free, so the line alternately closes for the others and opens for as long: 0.1 s
// at first, and twice as long each time, up to 51 s. So a request that fits is never held up for ever, and a large one
// gets its memory once the others hold theirs for less than the line closes.
//
// Promises: a thread that died, or was stopped, is passed over half a second after it was last awake. No lock. A thread
// that finds no free place waits as well, in no order.
#pragma once

#include <cstdint>

#include "ledger/open_book.hpp"

namespace ration::ledger {

class Line {
 public:
  Line(const OpenBook& book, std::uint32_t account) noexcept : book_(&book), account_(account) {}

  /// Returns whether the calling thread has to let an earlier one charge first.
  [[nodiscard]] bool others_come_first() const noexcept;

 private:
  const OpenBook* book_;
  std::uint32_t account_;
};

/// The calling thread's place in a line, from its arrival until it has its memory or gives up. It keeps others behind
/// it from the first renew() on.
class PlaceInLine {
 public:
  PlaceInLine(const OpenBook& book, std::uint32_t account) noexcept;
  ~PlaceInLine();
  PlaceInLine(const PlaceInLine&) = delete;
  PlaceInLine& operator=(const PlaceInLine&) = delete;

  /// The thread is awake. Call it more often than every half a second.
  void renew() noexcept;

 private:
  const OpenBook* book_;
  std::uint32_t account_;
  std::uint64_t ticket_, since_ns_, outer_ticket_;
};

/// While one lives, its thread is behind no other: for the last attempt of a request that would be denied.
class PastTheLine {
 public:
  PastTheLine() noexcept;
  ~PastTheLine();
  PastTheLine(const PastTheLine&) = delete;
  PastTheLine& operator=(const PastTheLine&) = delete;

 private:
  std::uint64_t outer_ticket_;
};

}  // namespace ration::ledger
