// The processes of a workload: this one's place in the book, and what becomes of those that are gone. Used by the shim
// and the command line. A view of a book, by value.
#pragma once

#include "base/bytes.hpp"
#include "ledger/open_book.hpp"
#include "ledger/terms.hpp"

namespace ration::ledger {

class Processes {
 public:
  explicit Processes(OpenBook& book) noexcept : book_(&book) {}

  /// Registers the calling process. Reaps dead ones first when no slot is free. False: every slot is taken by the
  /// living, the book is no longer at its path, or its file system keeps no locks.
  bool attach() const noexcept;
  /// Gives back everything this process holds and its slot.
  void detach() const noexcept;
  /// In a child after fork: forget the parent's slot without touching it, so that attach() takes one for the child.
  void forget_slot() const noexcept;
  [[nodiscard]] bool attached() const noexcept { return book_->slot != kNoSlot; }
  /// This process has such memory. It stays so when the memory is freed: what the driver keeps of it is not known.
  void note(Unmovable what) const noexcept;

  /// Clears the slots of processes that are gone; what others hold of theirs stays charged to the workload. Returns how
  /// many bytes came back, over all accounts.
  Bytes reap() const noexcept;

 private:
  OpenBook* book_;
};

/// Whether the daemon that wrote into the book still divides its limits. False, too, where the book is no longer at its
/// path.
[[nodiscard]] bool has_daemon(const OpenBook& book) noexcept;

}  // namespace ration::ledger
