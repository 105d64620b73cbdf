// The processes of a workload: the calling process's slot in the book, and refunds for ended processes. Used by the
// guard and the command line. Processes is a view of a book and is passed by value.
#pragma once

#include "base/bytes.hpp"
#include "book/open_book.hpp"
#include "book/terms.hpp"

namespace ration::book {

class Processes {
 public:
  explicit Processes(OpenBook& book) noexcept : book_(&book) {}

  /// Registers the calling process. Reaps ended processes first. Returns false if living processes have every slot, the
  /// book is no longer at its path, or the book's file system does not support locks.
  bool attach() const noexcept;
  /// Gives back everything that this process holds, and its slot.
  void detach() const noexcept;
  /// Forgets the parent's slot in the child of a fork and leaves that slot unchanged. attach() then takes a slot for
  /// the child.
  void forget_slot() const noexcept;
  [[nodiscard]] bool attached() const noexcept { return book_->slot != kNoSlot; }
  /// The charged bytes of this process on one account.
  struct Holdings {
    Bytes all, contexts, pools, managed;  // `all`, and three parts of it by kind
  };
  [[nodiscard]] Holdings own_holdings(std::uint32_t account) const noexcept;
  /// Records that this process has memory of that kind. The record stays when the memory is freed, since the driver may
  /// keep some of it.
  void note(Unmovable what) const noexcept;

  /// Clears the slots of ended processes; their memory stays charged to the workload while other processes hold it.
  /// Returns the bytes refunded over all accounts.
  Bytes reap() const noexcept;

 private:
  OpenBook* book_;
};

/// Returns true if the daemon that wrote into the book still divides its limits and the book is still at its path.
[[nodiscard]] bool has_daemon(const OpenBook& book) noexcept;

}  // namespace ration::book
