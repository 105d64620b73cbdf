// The line of the threads that wait for memory of one account, in order of arrival across all processes of the
// workload. Used by charges, and by the guard while it waits.
//
// Without a line a large request starves, because small ones take freed memory before a sleeping thread wakes. A charge
// therefore yields while an earlier thread waits, even if the charge would fit. But the earlier thread may wait for
// bytes that the later one is about to free, so the line alternates: it is closed to later threads and then open to
// them for as long, 0.1 s at first and twice as long each time, up to 51 s. So a request that fits never waits for
// ever, and a large request gets its memory once the other threads hold their memory for less time than the line stays
// closed.
//
// Promises: a thread that died or was stopped loses its place half a second after it was last awake; there is no lock;
// a thread that finds no free place waits too, but out of order.
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

/// The calling thread's place in a line, from its arrival until it has its memory or gives up. From the first renew()
/// on, threads that arrive later stay behind this place.
class PlaceInLine {
 public:
  PlaceInLine(const OpenBook& book, std::uint32_t account) noexcept;
  ~PlaceInLine();
  PlaceInLine(const PlaceInLine&) = delete;
  PlaceInLine& operator=(const PlaceInLine&) = delete;

  /// Renews the place while the thread is awake. Must be called at least every half second.
  void renew() noexcept;

 private:
  const OpenBook* book_;
  std::uint32_t account_;
  std::uint64_t ticket_, since_ns_, outer_ticket_;
};

/// A scope in which the calling thread waits for no earlier thread in the line. Used for the last attempt of a request
/// that would otherwise be denied.
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
