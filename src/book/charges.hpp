// Changes of accounts other than this process's own charges and refunds: changes for memory that is charged to no
// single process, and refunds of a dead process's holdings. Used by the book alone.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>

#include "base/bytes.hpp"
#include "book/layout.hpp"
#include "book/open_book.hpp"

namespace ration::book {

/// Charges or refunds the common slot. Requires the lock of the shared part.
void charge_common(const OpenBook& book, std::uint32_t account, std::uint64_t granules) noexcept;
void refund_common(const OpenBook& book, std::uint32_t account, std::uint64_t granules) noexcept;

/// Returns the number of the change that refunds a dead process's holdings. It is higher by one than the highest number
/// that the process announced.
[[nodiscard]] std::uint64_t last_number(const SlotRecord& slot, std::uint32_t account) noexcept;
/// Refunds the holdings of a dead process. Several processes may do this for one slot at the same time, and any of them
/// may be killed at any instruction. Still, the refund is made once: it is a change in the dead process's name, and a
/// repeated attempt finds it in the usage word or among the confirmed changes (see charges.cpp). `state` is the state
/// word of the slot while the slot belongs to that process. Returns the bytes refunded.
Bytes refund_dead(const OpenBook& book, std::uint32_t slot, std::uint32_t account, std::uint64_t state) noexcept;

/// An amount for each account.
class ByAccount {
 public:
  Bytes& operator[](std::uint32_t account) noexcept { return account == kHostAccount ? host_ : devices_[account]; }
  [[nodiscard]] Bytes sum() const noexcept { return std::accumulate(devices_.begin(), devices_.end(), host_); }

 private:
  std::array<Bytes, kMaxAccounts> devices_{};
  Bytes host_;
};

/// Refunds the charges of ended processes. Makes system calls only if processes other than this one are charged on
/// `account`. Returns the bytes refunded on that account.
Bytes refund_ended(const OpenBook& book, std::uint32_t account) noexcept;

}  // namespace ration::book
