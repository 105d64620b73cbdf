// The shared memory of an ending process, which is settled before the process's slot is cleared. Used by the book
// alone.
#pragma once

#include <cstdint>

#include "book/charges.hpp"
#include "book/descriptor_label.hpp"
#include "book/open_book.hpp"

namespace ration::book {

/// The lock of the shared part, held while the object lives. The constructor waits at most 5 ms for it.
class SharedLock {
 public:
  SharedLock() noexcept = default;
  explicit SharedLock(const OpenBook& book) noexcept;
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;
  ~SharedLock();
  /// Returns false if the lock was not available.
  [[nodiscard]] explicit operator bool() const noexcept { return layout_ != nullptr; }

 private:
  BookLayout* layout_ = nullptr;
};

/// Returns true if the process of that slot lends or holds shared memory.
[[nodiscard]] bool has_shares(const OpenBook& book, std::uint32_t slot) noexcept;
/// Releases the shared memory of a process that has ended or detaches, and refunds what no other process holds.
/// Requires the lock of the shared part; must be called after the process's slot is marked as dead and before the slot
/// is cleared. Adds what the workload keeps to `kept`.
void release_shares_of(const OpenBook& book, std::uint32_t slot, LabelSearch& labels, ByAccount& kept) noexcept;

}  // namespace ration::book
