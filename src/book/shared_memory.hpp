// Memory that several processes of a workload may hold at once (see shared_memory.cpp). Each such memory has a number,
// and may have names. One process of the workload is charged for it; when that process gives it up, or ends, while
// others hold it, the charge stays with the workload until the last holder has let go. Sizes are multiples of a
// granule. Used by the guard. SharedMemory is a view of a book and is passed by value.
#pragma once

#include <cstdint>

#include "base/bytes.hpp"
#include "book/open_book.hpp"
#include "book/terms.hpp"

namespace ration::book {

class SharedMemory {
 public:
  explicit SharedMemory(const OpenBook& book) noexcept : book_(&book) {}

  /// Returns how many pieces of memory a workload can share at a time.
  [[nodiscard]] static std::uint64_t capacity() noexcept;
  /// Lends `size` bytes of this process's charge, so that other processes may come to hold them. Returns the memory's
  /// number, or 0 if there is no room; then no process can find the memory. If `part_of` is not 0, this memory is a
  /// piece of the memory with that number. The containing memory is then held as long as the piece is, and this process
  /// also counts as a holder of the piece.
  [[nodiscard]] std::uint64_t share(std::uint32_t account, Bytes size, Kind kind,
                                    std::uint64_t part_of = 0) const noexcept;
  /// Undoes share() for memory that no other process came to hold.
  void withdraw(std::uint64_t number, std::uint32_t account, Kind kind) const noexcept;
  /// Sets the lent bytes of memory whose size changes. Enters the memory again if its record is gone.
  void set_lent(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind) const noexcept;
  /// Lets processes find the memory by `key` as well. Returns false if there is no room for more names.
  bool add_name(std::uint64_t number, std::uint64_t key) const noexcept;
  /// Records that a descriptor holds the memory too, as long as the descriptor's label lives (descriptor_label.hpp). If
  /// the descriptor could not be labelled, it holds the memory as long as the book exists.
  void note_descriptor(std::uint64_t number, int descriptor, bool labelled) const noexcept;

  /// Shared memory that join() found.
  struct Found {
    std::uint64_t number = 0;
    std::uint32_t account = 0;
    Bytes size;
  };
  /// Joins the memory of this workload whose number or name is `key`: this process then holds the memory too. Returns
  /// false if the workload has no such memory.
  [[nodiscard]] bool join(std::uint64_t key, Found& out) const noexcept;
  /// Enters memory known by `key` for which this process was charged `size` bytes. Returns true if another process is
  /// charged already and this one joined; the caller then refunds its charge. Otherwise enters the memory as lent by
  /// this process; `number` is 0 if there was no room, and then no other process can find the memory.
  bool join_or_enter(std::uint64_t key, std::uint32_t account, Bytes size, std::uint64_t& number) const noexcept;
  /// Ends this process's hold after it joined.
  void leave(std::uint64_t number) const noexcept;
  /// Gives up `size` bytes that this process lent: they are refunded, or kept by the workload while others hold them.
  void give_up(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind) const noexcept;
  /// Refunds memory that no process holds any more. Cheap while nothing is shared.
  void settle() const noexcept;

 private:
  const OpenBook* book_;
};

}  // namespace ration::book
