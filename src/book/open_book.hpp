// The state of a mapped book, which the classes of the book share. Every object of these classes is a view of one
// OpenBook, made when it is needed and gone before the Book is moved. Used by the book; everything else asks a Book for
// a view.
#pragma once

#include <cstdint>

#include "base/byte_lock.hpp"
#include "base/file.hpp"
#include "book/terms.hpp"

namespace ration::book {

struct BookLayout;
struct SlotRecord;

/// A listener that hears of every change which this process makes to an account: `bytes` is positive for a charge and
/// negative for a refund. `common` is true for memory that is charged to no single process.
using ChargeListener = void (*)(std::uint32_t account, std::int64_t bytes, Kind kind, bool common) noexcept;

/// A listener that hears of every process whose slot this process clears: of ended processes and, when this process
/// detaches, of itself. The call precedes the refund of what the process with `pid` held.
using DeathListener = void (*)(std::int32_t pid) noexcept;

/// The slot number of a process without a slot.
inline constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

struct OpenBook {
  BookLayout* layout = nullptr;
  SlotRecord* own = nullptr;    // the slot of this process
  SlotRecord* quiet = nullptr;  // the same, but null while a listener is set; the hot path reads only this pointer
  std::uint32_t slot = kNoSlot;
  std::uint32_t account_count = 0;    // the number of accounts of devices
  bool counts_host = false;           // true if the book has the account of host memory too
  ChargeListener listener = nullptr;  // changes while other threads use the book
  DeathListener death_listener = nullptr;
  Mapping mapping;
  LockKeeper slot_lock;  // keeps the lock of the slot; see processes.cpp
  char path[4096] = {};
  std::uint64_t inode = 0, device = 0;  // the identity of the file

  [[nodiscard]] SlotRecord* quiet_slot() const noexcept { return __atomic_load_n(&quiet, __ATOMIC_RELAXED); }
  [[nodiscard]] ChargeListener current_listener() const noexcept {
    return __atomic_load_n(&listener, __ATOMIC_RELAXED);
  }
  void set_own(SlotRecord* slot_record) noexcept {
    own = slot_record;
    __atomic_store_n(&quiet, current_listener() == nullptr ? own : nullptr, __ATOMIC_RELAXED);
  }
  void listen(ChargeListener charges, DeathListener deaths) noexcept {
    __atomic_store_n(&death_listener, deaths, __ATOMIC_RELAXED);
    __atomic_store_n(&listener, charges, __ATOMIC_RELAXED);
    set_own(own);
  }
  [[nodiscard]] bool has(std::uint32_t account) const noexcept {
    return account < account_count || (account == kHostAccount && counts_host);
  }
  /// Calls `visit(account)` for each account, the host's last.
  template <typename Visit>
  void each_account(Visit&& visit) const noexcept {
    for (std::uint32_t account = 0; account < account_count; ++account) visit(account);
    if (counts_host) visit(kHostAccount);
  }
};

}  // namespace ration::book
