// Memory that several processes of a workload may hold at once: by an IPC handle, a descriptor, a pointer of a shared
// pool. It is charged once. Whoever made it, or brought it into the workload, is charged as for any other memory, and
// lends it; who joins is charged nothing. When the lender gives it up, or has ended, while others hold it or a
// descriptor of it lives, the charge moves from its slot to one that is nobody's (kCommonSlot), and goes when the last
// has let go.
//
// All of this is rare, so it has a lock of its own, outside the book's. Nobody waits for it longer than a few
// milliseconds: whoever is stopped inside delays nobody's charge. Where it cannot be had, what was to be given back
// stays charged until somebody settles it, and who wanted to join is charged for itself. The entries are what is
// believed after a death inside: a step changes an entry first, in one store, then the sums.
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>

#include "ledger/book.hpp"
#include "ledger/descriptor_label.hpp"
#include "ledger/layout.hpp"

namespace ration::ledger {
namespace {

// Together 5 ms.
constexpr timespec kNap{0, 50'000};
constexpr int kMaxNaps = 100;

std::uint64_t granules_of(Bytes size) noexcept { return round_up(size, kGranule).count() / kGranule.count(); }
constexpr std::uint64_t pack(std::uint64_t lent, std::uint64_t kept) noexcept { return kept << 32 | lent; }
Kind kind_of(const SharedRecord& record) noexcept { return static_cast<Kind>(record.kind); }

bool has_bit(const SharedRecord& record, std::uint32_t slot) noexcept {
  return (record.holders[slot / 64].load(kRelaxed) >> slot % 64 & 1) != 0;
}
void set_bit(SharedRecord& record, std::uint32_t slot) noexcept {
  record.holders[slot / 64].fetch_or(std::uint64_t{1} << slot % 64);
}
void clear_bit(SharedRecord& record, std::uint32_t slot) noexcept {
  record.holders[slot / 64].fetch_and(~(std::uint64_t{1} << slot % 64));
}
bool has_holders(const SharedRecord& record) noexcept {
  return std::any_of(std::begin(record.holders), std::end(record.holders),
                     [](const Word& word) { return word.load(kRelaxed) != 0; });
}

void raise(std::atomic<std::uint32_t>& bound, std::uint32_t to) noexcept {
  for (std::uint32_t now = bound.load(kRelaxed); now < to && !bound.compare_exchange_weak(now, to);) {
  }
}

/// Every entry that is made and not given up. A book that somebody has written into must not lead astray.
template <typename Visit>
void each_record(SharedPart& part, Visit&& visit) noexcept {
  const std::uint32_t bound = std::min<std::uint32_t>(part.bound.load(std::memory_order_acquire), kMaxShared);
  for (std::uint32_t index = 0; index < bound; ++index) {
    if (part.records[index].number.load(std::memory_order_acquire) != 0) visit(part.records[index]);
  }
}

void erase(SharedPart& part, SharedRecord& record) noexcept {
  const std::uint64_t number = record.number.load(kRelaxed);
  record.number.store(0, kRelaxed);
  const std::uint32_t names = std::min<std::uint32_t>(part.name_bound.load(kRelaxed), kMaxNames);
  for (std::uint32_t index = 0; index < names; ++index) {
    NameRecord& name = part.names[index];
    if (name.number.load(kRelaxed) != number) continue;
    name.key.store(0, kRelaxed);
    name.number.store(0, std::memory_order_release);
  }
  record.maker.store(0, std::memory_order_release);
}

}  // namespace

// ------------------------------------------------------------------------------------------------ lock and recovery

bool Book::lock_shared() noexcept {
  pthread_mutex_t& mutex = layout_->shared.lock;
  int outcome = ::pthread_mutex_trylock(&mutex);
  for (int nap = 0; outcome == EBUSY && nap < kMaxNaps; ++nap) {
    ::syscall(SYS_nanosleep, &kNap, nullptr);  // nanosleep() would be a place to cancel this thread at
    outcome = ::pthread_mutex_trylock(&mutex);
  }
  if (outcome == 0) return true;
  if (outcome != EOWNERDEAD) return false;
  recover_shared();
  return ::pthread_mutex_consistent(&mutex) == 0;
}

void Book::unlock_shared() noexcept { ::pthread_mutex_unlock(&layout_->shared.lock); }

// What is kept is what the entries say. What a dead process still has in its slot goes when that is reaped.
void Book::recover_shared() noexcept {
  SlotRecord& common = layout_->slots[kCommonSlot];
  const std::uint64_t number = change_number(common.change.load(std::memory_order_acquire));
  std::uint64_t sums[kMaxAccounts] = {};
  each_record(layout_->shared, [&](const SharedRecord& record) {
    if (record.account < account_count_) sums[record.account] += kept_granules(record.bytes.load(kRelaxed));
  });
  for (std::uint32_t account = 0; account < account_count_; ++account) {
    if (!is_made(common, kCommonSlot, account, layout_->accounts[account].usage.load())) continue;
    common.parts[account].held.store(common.change_held);
    common.parts[account].changes.store(number);
  }
  common.change.store(kNoChange, std::memory_order_release);
  for (std::uint32_t account = 0; account < account_count_; ++account) {
    const std::uint64_t now = common.parts[account].held.load(kRelaxed) / kGranule.count();
    if (sums[account] > now) charge_common(account, sums[account] - now);
    if (sums[account] < now) refund_common(account, now - sums[account]);
  }
}

bool Book::has_shares(std::uint32_t slot) const noexcept {
  const SharedPart& part = layout_->shared;
  const std::uint32_t bound = std::min<std::uint32_t>(part.bound.load(std::memory_order_acquire), kMaxShared);
  return std::any_of(part.records, part.records + bound, [slot](const SharedRecord& record) {
    return record.maker.load(std::memory_order_acquire) == slot + 1 || has_bit(record, slot);
  });
}

// ------------------------------------------------------------------------------------------------- making and finding

SharedRecord* Book::make_shared(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind,
                                std::uint64_t part_of) noexcept {
  SharedPart& part = layout_->shared;
  for (std::uint32_t index = 0; index < kMaxShared; ++index) {
    SharedRecord& record = part.records[index];
    std::uint32_t unused = 0;
    if (record.maker.load(kRelaxed) != 0 || !record.maker.compare_exchange_strong(unused, slot_ + 1)) continue;
    record.account = account;
    record.kind = static_cast<std::uint32_t>(kind);
    record.part_of.store(part_of, kRelaxed);
    record.bytes.store(pack(granules_of(size), 0), kRelaxed);
    for (Word* word : {&record.waived, &record.control_device, &record.control_inode}) word->store(0, kRelaxed);
    for (Word& word : record.holders) word.store(0, kRelaxed);
    if (part_of != 0) set_bit(record, slot_);
    raise(part.bound, index + 1);
    record.number.store(number, std::memory_order_release);
    return &record;
  }
  return nullptr;
}

SharedRecord* Book::find_shared(std::uint64_t key) noexcept {
  SharedPart& part = layout_->shared;
  if (key == 0) return nullptr;
  std::uint64_t number = key;
  const std::uint32_t names = std::min<std::uint32_t>(part.name_bound.load(kRelaxed), kMaxNames);
  for (std::uint32_t index = 0; index < names; ++index) {
    if (part.names[index].key.load(std::memory_order_acquire) == key) number = part.names[index].number.load(kRelaxed);
  }
  SharedRecord* found = nullptr;
  each_record(part, [&](SharedRecord& record) {
    if (record.number.load(kRelaxed) == number && record.account < account_count_) found = &record;
  });
  return found;
}

std::uint64_t Book::share(std::uint32_t account, Bytes size, Kind kind, std::uint64_t part_of) noexcept {
  if (account >= account_count_ || slot_ == kNoSlot) return 0;
  const std::uint64_t number = draw_number();
  return number != 0 && make_shared(number, account, size, kind, part_of) != nullptr ? number : 0;
}

void Book::set_lent(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind) noexcept {
  if (account >= account_count_ || slot_ == kNoSlot || !lock_shared()) return;
  SharedRecord* record = find_shared(number);
  if (record != nullptr)
    record->bytes.store(pack(granules_of(size), kept_granules(record->bytes.load(kRelaxed))), kRelaxed);
  else if (size > Bytes{0})
    (void)make_shared(number, account, size, kind, 0);
  unlock_shared();
}

bool Book::add_name(std::uint64_t number, std::uint64_t key) noexcept {
  if (number == 0 || key == 0) return false;
  SharedPart& part = layout_->shared;
  const std::uint32_t names = std::min<std::uint32_t>(part.name_bound.load(kRelaxed), kMaxNames);
  for (std::uint32_t index = 0; index < names; ++index) {
    const NameRecord& name = part.names[index];
    if (name.key.load(kRelaxed) == key && name.number.load(kRelaxed) == number) return true;
  }
  for (std::uint32_t index = 0; index < kMaxNames; ++index) {
    NameRecord& name = part.names[index];
    std::uint64_t unused = 0;
    if (name.number.load(kRelaxed) != 0 || !name.number.compare_exchange_strong(unused, number)) continue;
    raise(part.name_bound, index + 1);
    name.key.store(key, std::memory_order_release);
    return true;
  }
  return false;
}

void Book::note_descriptor(std::uint64_t number, int descriptor, bool labelled) noexcept {
  SharedRecord* record = find_shared(number);
  if (record == nullptr) return;
  SharedPart& part = layout_->shared;
  ControlFile file;
  std::uint32_t unwritten = 0;
  labelled = labelled && control_file_of(descriptor, file);
  if (labelled && part.control_state.compare_exchange_strong(unwritten, 1)) {
    char link[40];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    const ssize_t length = ::readlink(link, part.control_path, sizeof part.control_path - 1);
    part.control_path[std::max<ssize_t>(length, 0)] = '\0';
    part.control_state.store(2, std::memory_order_release);
  }
  // One file that cannot be asked outweighs all others.
  if (record->control_inode.load(kRelaxed) == kUnknownFile) return;
  const std::uint64_t known = record->control_inode.load(kRelaxed);
  record->control_device.store(file.device, kRelaxed);
  record->control_inode.store(labelled && (known == 0 || known == file.inode) ? file.inode : kUnknownFile,
                              std::memory_order_release);
}

bool Book::join(std::uint64_t key, SharedMemory& out) noexcept {
  if (slot_ == kNoSlot || layout_->shared.bound.load(kRelaxed) == 0 || !lock_shared()) return false;
  SharedRecord* record = find_shared(key);
  if (record != nullptr) {
    set_bit(*record, slot_);
    const std::uint64_t word = record->bytes.load(kRelaxed);
    out = {record->number.load(kRelaxed), record->account, kGranule * (lent_granules(word) + kept_granules(word))};
  }
  unlock_shared();
  return record != nullptr;
}

bool Book::adopt(std::uint64_t key, std::uint32_t account, Bytes size, std::uint64_t& number) noexcept {
  number = 0;
  if (account >= account_count_ || slot_ == kNoSlot || key == 0 || !lock_shared()) return false;
  SharedRecord* record = find_shared(key);
  const bool joined = record != nullptr;
  if (joined) {
    set_bit(*record, slot_);
    number = record->number.load(kRelaxed);
  } else {
    const std::uint64_t drawn = draw_number();
    if (drawn != 0 && make_shared(drawn, account, size, Kind::kHeap, 0) != nullptr) number = drawn;
    (void)add_name(number, key);
  }
  unlock_shared();
  return joined;
}

// ------------------------------------------------------------------------------------------------------- letting go

bool Book::held_by_others(const SharedRecord& record, LabelSearch& labels) const noexcept {
  if (has_holders(record)) return true;
  const std::uint64_t inode = record.control_inode.load(kRelaxed);
  const std::uint64_t number = record.number.load(kRelaxed);
  if (inode == kUnknownFile) return true;
  if (inode != 0 && labels.lives(number, {record.control_device.load(kRelaxed), inode})) return true;
  // A piece that its maker holds itself has not gone with what was given up.
  bool piece_is_held = false;
  each_record(layout_->shared, [&](const SharedRecord& piece) {
    if (piece.part_of.load(kRelaxed) != number || !has_holders(piece)) return;
    const std::uint32_t maker = piece.maker.load(kRelaxed);
    if (maker == 0 || maker > kMaxProcesses || !has_bit(piece, maker - 1)) piece_is_held = true;
  });
  return piece_is_held;
}

// Under the lock. What is lent is changed only for its maker by the maker itself.
void Book::settle(SharedRecord& record, LabelSearch& labels) noexcept {
  SharedPart& part = layout_->shared;
  std::uint64_t word = record.bytes.load(kRelaxed);
  const std::uint64_t given_up = std::min(record.waived.load(kRelaxed), lent_granules(word));
  if (given_up > 0 && slot_ != kNoSlot && record.maker.load(kRelaxed) == slot_ + 1) {
    const bool kept = held_by_others(record, labels);
    word = pack(lent_granules(word) - given_up, kept_granules(word) + (kept ? given_up : 0));
    record.bytes.store(word, kRelaxed);
    // First the one, then the other: for a moment both are charged, and never neither.
    if (kept) charge_common(record.account, given_up);
    refund(record.account, kGranule * given_up, kind_of(record));
    record.waived.fetch_sub(given_up);
  }
  if (lent_granules(word) != 0 || held_by_others(record, labels)) return;
  const std::uint32_t account = record.account;
  erase(part, record);
  refund_common(account, kept_granules(word));
}

void Book::leave(std::uint64_t number) noexcept {
  SharedRecord* record = slot_ == kNoSlot ? nullptr : find_shared(number);
  if (record == nullptr) return;
  clear_bit(*record, slot_);
  settle_shared();
}

void Book::give_up(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind) noexcept {
  SharedRecord* record = slot_ == kNoSlot || size == Bytes{0} ? nullptr : find_shared(number);
  const bool lent = record != nullptr && record->maker.load(kRelaxed) == slot_ + 1;
  const std::uint64_t word = lent ? record->bytes.load(kRelaxed) : 0;
  const std::uint64_t waived = std::min(lent_granules(word), granules_of(size));
  if (waived * kGranule.count() < size.count()) refund(account, size - kGranule * waived, kind);
  if (waived == 0) return;
  record->waived.fetch_add(waived);
  if (!lock_shared()) return;
  LabelSearch labels(layout_->shared.control_path);
  settle(*record, labels);
  unlock_shared();
}

void Book::settle_shared() noexcept {
  SharedPart& part = layout_->shared;
  if (slot_ == kNoSlot || part.bound.load(kRelaxed) == 0 || !lock_shared()) return;
  LabelSearch labels(part.control_path);
  // Pieces first: what they are a part of lives while they do.
  for (const bool pieces : {true, false}) {
    each_record(part, [&](SharedRecord& record) {
      if ((record.part_of.load(kRelaxed) != 0) == pieces) settle(record, labels);
    });
  }
  unlock_shared();
}

// A process has ended, or detaches. Under the lock of the shared part, when its slot is marked as dead and before that
// is cleared, and with it what nobody else holds. Returns what the workload keeps.
Bytes Book::release_shares_of(std::uint32_t slot, LabelSearch& labels) noexcept {
  SharedPart& part = layout_->shared;
  Bytes kept_bytes;
  const std::uint32_t bound = std::min<std::uint32_t>(part.bound.load(kRelaxed), kMaxShared);
  for (std::uint32_t index = 0; index < bound; ++index) {
    SharedRecord& record = part.records[index];
    clear_bit(record, slot);
    if (record.maker.load(kRelaxed) == slot + 1 && record.number.load(kRelaxed) == 0) record.maker.store(0);
  }
  each_record(part, [&](SharedRecord& record) {
    if (record.maker.load(kRelaxed) != slot + 1) return;
    const std::uint64_t word = record.bytes.load(kRelaxed), lent = lent_granules(word);
    const bool kept = lent > 0 && held_by_others(record, labels);
    record.bytes.store(pack(0, kept_granules(word) + (kept ? lent : 0)), kRelaxed);
    if (kept) {  // the slot's own part goes with the slot
      charge_common(record.account, lent);
      kept_bytes += kGranule * lent;
    }
    record.waived.store(0, kRelaxed);
    record.maker.store(kNobody, kRelaxed);
  });
  for (const bool pieces : {true, false}) {
    each_record(part, [&](SharedRecord& record) {
      if ((record.part_of.load(kRelaxed) != 0) == pieces && lent_granules(record.bytes.load(kRelaxed)) == 0)
        settle(record, labels);
    });
  }
  return kept_bytes;
}

}  // namespace ration::ledger
