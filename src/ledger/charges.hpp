// Changes of accounts that are not this process's own: of what nobody in particular pays for, and of what a dead
// process held. Used by the ledger alone.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.hpp"
#include "ledger/layout.hpp"
#include "ledger/open_book.hpp"

namespace ration::ledger {

/// Charges or refunds what the common slot holds. Under the lock of the shared part.
void charge_common(const OpenBook& book, std::uint32_t account, std::uint64_t granules) noexcept;
void refund_common(const OpenBook& book, std::uint32_t account, std::uint64_t granules) noexcept;

/// The number of the change that refunds what a dead process held: one more than any that it announced.
[[nodiscard]] std::uint64_t last_number(const SlotRecord& slot, std::uint32_t account) noexcept;
/// Every process may do this for the same slot at the same time, and stop anywhere: the refund is a change in the dead
/// process's name, so it stands in the usage word or is confirmed, and nobody makes it twice. `state`: of the slot,
/// while it is that process's. Returns how many bytes came back.
Bytes refund_dead(const OpenBook& book, std::uint32_t slot, std::uint32_t account, std::uint64_t state) noexcept;

/// Amounts of one kind on each account.
using ByAccount = std::array<Bytes, kMaxAccounts>;

/// Gives back what ended processes are charged. Calls the system only where processes other than this one are charged
/// on `account`. Returns how many bytes came back there.
Bytes refund_ended(const OpenBook& book, std::uint32_t account) noexcept;

}  // namespace ration::ledger
