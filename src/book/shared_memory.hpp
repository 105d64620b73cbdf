// Memory that several processes of a workload may hold at once (see shared_memory.cpp). It has a number of its own, and
// may have names. One process of the workload is charged for it; when that one gives it up, or ends, while others hold
// it, the charge stays with the workload until the last has let go. Sizes are multiples of a granule. Used by the
// guard. A view of a book, by value.
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
  /// Lends `size` bytes of what this process is charged, so that others may come to hold them. Returns the memory's
  /// number, or 0 if there is no room for more, and then no process can find it. `part_of` is the memory that contains
  /// this piece and that is held as long as the piece is; this process is a holder of the piece, too.
  [[nodiscard]] std::uint64_t share(std::uint32_t account, Bytes size, Kind kind,
                                    std::uint64_t part_of = 0) const noexcept;
  /// Undoes share() for memory that no other process came to hold.
  void withdraw(std::uint64_t number, std::uint32_t account, Kind kind) const noexcept;
  /// Sets how many bytes are lent from now on; if none were, the memory is entered again. For memory whose size
  /// changes.
  void set_lent(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind) const noexcept;
  /// Makes the memory known by `key` as well. Returns false if there is no room for more names.
  bool add_name(std::uint64_t number, std::uint64_t key) const noexcept;
  /// Records that a descriptor holds the memory too: as long as its label lives (descriptor_label.hpp), or, if the
  /// descriptor could not be labelled, as long as the book.
  void note_descriptor(std::uint64_t number, int descriptor, bool labelled) const noexcept;

  /// Looks up memory by its number or name. If it is charged to this workload, this process holds it from now on as
  /// well.
  struct Found {
    std::uint64_t number = 0;
    std::uint32_t account = 0;
    Bytes size;
  };
  [[nodiscard]] bool join(std::uint64_t key, Found& out) const noexcept;
  /// Enters memory known by `key` for which this process was charged `size` bytes. Returns true if another process is
  /// charged already and this one joined: then this charge is to be refunded. Otherwise the memory is entered as lent
  /// by this process; `number` is 0 if there was no room, and then no other process can find it.
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
