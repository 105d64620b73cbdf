// Memory that several processes of a workload may hold at once (shared_memory.cpp says how). It goes by a number of its
// own, and may have names. One process of the workload is charged for it; when that one gives it up, or ends, while
// others hold it, the charge stays with the workload until the last has let go. Sizes are multiples of a granule. Used
// by the shim. A view of a book, by value.
#pragma once

#include <cstdint>

#include "base/bytes.hpp"
#include "ledger/open_book.hpp"
#include "ledger/terms.hpp"

namespace ration::ledger {

class SharedMemory {
 public:
  explicit SharedMemory(const OpenBook& book) noexcept : book_(&book) {}

  /// How many pieces of memory a workload can share at a time.
  [[nodiscard]] static std::uint64_t capacity() noexcept;
  /// Of what this process is charged, others may come to hold `size` bytes: it lends them. Returns the memory's number;
  /// 0: there is no room for more, so nobody will find it. `part_of`: a piece of that memory, which is held as well
  /// while somebody holds the piece; this process is a holder of the piece, too.
  [[nodiscard]] std::uint64_t share(std::uint32_t account, Bytes size, Kind kind,
                                    std::uint64_t part_of = 0) const noexcept;
  /// Takes share() back of memory that nobody else came to hold.
  void withdraw(std::uint64_t number, std::uint32_t account, Kind kind) const noexcept;
  /// What is lent of it from now on; where nothing was, it is entered again. For memory whose size changes.
  void set_lent(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind) const noexcept;
  /// Found by `key` from now on. False: there is no room for more names.
  bool add_name(std::uint64_t number, std::uint64_t key) const noexcept;
  /// It is also held by a descriptor with its label (descriptor_label.hpp), for as long as that lives; or, where the
  /// descriptor could not be labelled, for as long as the book.
  void note_descriptor(std::uint64_t number, int descriptor, bool labelled) const noexcept;

  /// Whether that number or name is charged to this workload; if so, this process holds it from now on, too.
  struct Found {
    std::uint64_t number = 0;
    std::uint32_t account = 0;
    Bytes size;
  };
  [[nodiscard]] bool join(std::uint64_t key, Found& out) const noexcept;
  /// This process was charged `size` bytes for what goes by `key`. True: another process is charged already, and this
  /// one joined, so it gets the charge back; else the memory is entered as lent by this process. `number` is 0 if it
  /// could not be: nobody will find it.
  bool adopt(std::uint64_t key, std::uint32_t account, Bytes size, std::uint64_t& number) const noexcept;
  /// Who joined holds it no longer.
  void leave(std::uint64_t number) const noexcept;
  /// Who lent it gives up `size` bytes: refunded, or kept by the workload while others hold it.
  void give_up(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind) const noexcept;
  /// Refunds what nobody holds any more. Cheap while nothing is shared.
  void settle() const noexcept;

 private:
  const OpenBook* book_;
};

}  // namespace ration::ledger
