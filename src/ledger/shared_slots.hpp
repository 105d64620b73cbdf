// What a process that ends had to do with memory of several: settled before its slot is cleared. Used by the ledger
// alone.
#pragma once

#include <cstdint>

#include "ledger/charges.hpp"
#include "ledger/descriptor_label.hpp"
#include "ledger/open_book.hpp"

namespace ration::ledger {

/// The lock of the shared part, held while this lives; waited for at most 5 ms.
class SharedLock {
 public:
  SharedLock() noexcept = default;
  explicit SharedLock(const OpenBook& book) noexcept;
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;
  ~SharedLock();
  /// False: it could not be had.
  [[nodiscard]] explicit operator bool() const noexcept { return layout_ != nullptr; }

 private:
  BookLayout* layout_ = nullptr;
};

/// Whether the process of that slot lends or holds any.
[[nodiscard]] bool has_shares(const OpenBook& book, std::uint32_t slot) noexcept;
/// A process has ended, or detaches. Under the lock of the shared part, when its slot is marked as dead and before that
/// is cleared, and with it what nobody else holds. Adds what the workload keeps to `kept`.
void release_shares_of(const OpenBook& book, std::uint32_t slot, LabelSearch& labels, ByAccount& kept) noexcept;

}  // namespace ration::ledger
