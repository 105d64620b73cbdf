// The line of the threads that wait for memory of one account: in order of arrival, over all processes of the workload.
// Used by charges, and by the guard while it waits.
//
// Without it a large request starves: small ones take freed memory again before a sleeping thread wakes. A charge
// therefore yields while an earlier thread waits, even if it would fit. But that thread may wait for bytes that the
// later one is about to free, so the line alternately closes for the others and opens for as long: 0.1 s at first, and
// twice as long each time, up to 51 s. So a request that fits is never held up for ever, and a large one gets its
// memory once the others hold theirs for less than the line closes.
//
// Promises: a thread that died, or was stopped, is passed over half a second after it was last awake. No lock. A thread
// that finds no free place waits as well, in no order.
#pragma once

#include <cstdint>

#include "book/open_book.hpp"

namespace ration::book {

class Line {
 public:
  Line(const OpenBook& book, std::uint32_t account) noexcept : book_(&book), account_(account) {}

  /// Returns true if the calling thread has to let an earlier one charge first.
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

  /// Renews the place while the thread is awake. Must be called more often than every half second.
  void renew() noexcept;

 private:
  const OpenBook* book_;
  std::uint32_t account_;
  std::uint64_t ticket_, since_ns_, outer_ticket_;
};

/// While one lives, its thread yields to no other: for the last attempt of a request that would be denied.
class PastTheLine {
 public:
  PastTheLine() noexcept;
  ~PastTheLine();
  PastTheLine(const PastTheLine&) = delete;
  PastTheLine& operator=(const PastTheLine&) = delete;

 private:
  std::uint64_t outer_ticket_;
};

}  // namespace ration::book
