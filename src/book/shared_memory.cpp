// Memory that several processes of a workload may hold at once: through an IPC handle, a descriptor, or a pointer of a
// shared pool. It is charged once. The process that made it, or brought it into the workload, is charged as for any
// other memory, and lends it; a process that joins is charged nothing. When the lender gives the memory up, or ends,
// while others hold it or a descriptor of it lives, the charge moves from the lender's slot to the common one
// (kCommonSlot) and ends when the last holder has let go.
//
// Sharing is rare, so it has a lock of its own, apart from the accounts. No process waits for the lock longer than a
// few milliseconds, so a process that is stopped while it holds the lock delays no charge. If the lock is not
// available, memory to be refunded stays charged until a later settlement, and a process that wanted to join is charged
// itself. If a process dies while it holds the lock, the next process computes the sums again from the entries: each
// step changes an entry first, in one store, and then the sums.
#include "book/shared_memory.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>

#include "book/account.hpp"
#include "book/charges.hpp"
#include "book/descriptor_label.hpp"
#include "book/layout.hpp"
#include "book/shared_slots.hpp"

namespace ration::book {
namespace {

// The longest wait for the lock, 5 ms in all.
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

/// Visits every complete entry. Stays within the table even if the book has been overwritten.
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

// ------------------------------------------------------------------------------------------------ lock and recovery

// Repairs the common slot after a process died while it held the lock: makes its bytes the sum of the kept bytes of all
// entries. Bytes that are still in the dead process's slot are refunded when it is reaped.
void recover(const OpenBook& book) noexcept {
  SlotRecord& common = book.layout->slots[kCommonSlot];
  const std::uint64_t number = change_number(common.change.load(std::memory_order_acquire));
  ByAccount sums;
  each_record(book.layout->shared, [&](const SharedRecord& record) {
    if (book.has(record.account)) sums[record.account] += kGranule * kept_granules(record.bytes.load(kRelaxed));
  });
  book.each_account([&](std::uint32_t account) {
    if (!is_made(common, kCommonSlot, account, usage_of(*book.layout, account).load())) return;
    holdings_of(common, account).held.store(common.change_held);
    holdings_of(common, account).changes.store(number);
  });
  common.change.store(kNoChange, std::memory_order_release);
  book.each_account([&](std::uint32_t account) {
    const std::uint64_t now = holdings_of(common, account).held.load(kRelaxed) / kGranule.count();
    const std::uint64_t sum = sums[account].count() / kGranule.count();
    if (sum > now) charge_common(book, account, sum - now);
    if (sum < now) refund_common(book, account, now - sum);
  });
}

/// Takes the lock of the shared part. Returns false if it was not available.
bool lock(const OpenBook& book) noexcept {
  pthread_mutex_t& mutex = book.layout->shared.lock;
  int outcome = ::pthread_mutex_trylock(&mutex);
  for (int nap = 0; outcome == EBUSY && nap < kMaxNaps; ++nap) {
    ::syscall(SYS_nanosleep, &kNap, nullptr);  // nanosleep() would be a cancellation point
    outcome = ::pthread_mutex_trylock(&mutex);
  }
  if (outcome == 0) return true;
  if (outcome != EOWNERDEAD) return false;
  recover(book);
  return ::pthread_mutex_consistent(&mutex) == 0;
}

}  // namespace

SharedLock::SharedLock(const OpenBook& book) noexcept : layout_(lock(book) ? book.layout : nullptr) {}

SharedLock::~SharedLock() {
  if (layout_ != nullptr) ::pthread_mutex_unlock(&layout_->shared.lock);
}

bool has_shares(const OpenBook& book, std::uint32_t slot) noexcept {
  const SharedPart& part = book.layout->shared;
  const std::uint32_t bound = std::min<std::uint32_t>(part.bound.load(std::memory_order_acquire), kMaxShared);
  return std::any_of(part.records, part.records + bound, [slot](const SharedRecord& record) {
    return record.maker.load(std::memory_order_acquire) == slot + 1 || has_bit(record, slot);
  });
}

// ------------------------------------------------------------------------------------------------- making and finding

namespace {

SharedRecord* make_record(const OpenBook& book, std::uint64_t number, std::uint32_t account, Bytes size, Kind kind,
                          std::uint64_t part_of) noexcept {
  SharedPart& part = book.layout->shared;
  for (std::uint32_t index = 0; index < kMaxShared; ++index) {
    SharedRecord& record = part.records[index];
    std::uint32_t unused = 0;
    if (record.maker.load(kRelaxed) != 0 || !record.maker.compare_exchange_strong(unused, book.slot + 1)) continue;
    record.account = account;
    record.kind = static_cast<std::uint32_t>(kind);
    record.part_of.store(part_of, kRelaxed);
    record.bytes.store(pack(granules_of(size), 0), kRelaxed);
    for (Word* word : {&record.waived, &record.control_device, &record.control_inode}) word->store(0, kRelaxed);
    for (Word& word : record.holders) word.store(0, kRelaxed);
    if (part_of != 0) set_bit(record, book.slot);
    raise(part.bound, index + 1);
    record.number.store(number, std::memory_order_release);
    return &record;
  }
  return nullptr;
}

SharedRecord* find_record(const OpenBook& book, std::uint64_t key) noexcept {
  SharedPart& part = book.layout->shared;
  if (key == 0) return nullptr;
  std::uint64_t number = key;
  const std::uint32_t names = std::min<std::uint32_t>(part.name_bound.load(kRelaxed), kMaxNames);
  for (std::uint32_t index = 0; index < names; ++index) {
    if (part.names[index].key.load(std::memory_order_acquire) == key) number = part.names[index].number.load(kRelaxed);
  }
  SharedRecord* found = nullptr;
  each_record(part, [&](SharedRecord& record) {
    if (record.number.load(kRelaxed) == number && book.has(record.account)) found = &record;
  });
  return found;
}

}  // namespace

std::uint64_t SharedMemory::capacity() noexcept { return kMaxShared; }

std::uint64_t SharedMemory::share(std::uint32_t account, Bytes size, Kind kind, std::uint64_t part_of) const noexcept {
  if (!book_->has(account) || book_->slot == kNoSlot) return 0;
  const std::uint64_t number = draw_number();
  return number != 0 && make_record(*book_, number, account, size, kind, part_of) != nullptr ? number : 0;
}

void SharedMemory::set_lent(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind) const noexcept {
  if (!book_->has(account) || book_->slot == kNoSlot) return;
  const SharedLock held(*book_);
  if (!held) return;
  SharedRecord* record = find_record(*book_, number);
  if (record != nullptr)
    record->bytes.store(pack(granules_of(size), kept_granules(record->bytes.load(kRelaxed))), kRelaxed);
  else if (size > Bytes{0})
    (void)make_record(*book_, number, account, size, kind, 0);
}

void SharedMemory::withdraw(std::uint64_t number, std::uint32_t account, Kind kind) const noexcept {
  set_lent(number, account, Bytes{0}, kind);
  settle();
}

bool SharedMemory::add_name(std::uint64_t number, std::uint64_t key) const noexcept {
  if (number == 0 || key == 0) return false;
  SharedPart& part = book_->layout->shared;
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

void SharedMemory::note_descriptor(std::uint64_t number, int descriptor, bool labelled) const noexcept {
  SharedRecord* record = find_record(*book_, number);
  if (record == nullptr) return;
  SharedPart& part = book_->layout->shared;
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
  // Once one descriptor of the memory cannot be queried, all its descriptors count as open.
  if (record->control_inode.load(kRelaxed) == kUnknownFile) return;
  const std::uint64_t known = record->control_inode.load(kRelaxed);
  record->control_device.store(file.device, kRelaxed);
  record->control_inode.store(labelled && (known == 0 || known == file.inode) ? file.inode : kUnknownFile,
                              std::memory_order_release);
}

bool SharedMemory::join(std::uint64_t key, Found& out) const noexcept {
  if (book_->slot == kNoSlot || book_->layout->shared.bound.load(kRelaxed) == 0) return false;
  const SharedLock held(*book_);
  if (!held) return false;
  SharedRecord* record = find_record(*book_, key);
  if (record != nullptr) {
    set_bit(*record, book_->slot);
    const std::uint64_t word = record->bytes.load(kRelaxed);
    out = {record->number.load(kRelaxed), record->account, kGranule * (lent_granules(word) + kept_granules(word))};
  }
  return record != nullptr;
}

bool SharedMemory::join_or_enter(std::uint64_t key, std::uint32_t account, Bytes size,
                                 std::uint64_t& number) const noexcept {
  number = 0;
  if (!book_->has(account) || book_->slot == kNoSlot || key == 0) return false;
  const SharedLock held(*book_);
  if (!held) return false;
  SharedRecord* record = find_record(*book_, key);
  const bool joined = record != nullptr;
  if (joined) {
    set_bit(*record, book_->slot);
    number = record->number.load(kRelaxed);
  } else {
    const std::uint64_t drawn = draw_number();
    if (drawn != 0 && make_record(*book_, drawn, account, size, Kind::kHeap, 0) != nullptr) number = drawn;
    (void)add_name(number, key);
  }
  return joined;
}

// ------------------------------------------------------------------------------------------------------- letting go

namespace {

bool held_by_others(const OpenBook& book, const SharedRecord& record, LabelSearch& labels) noexcept {
  if (has_holders(record)) return true;
  const std::uint64_t inode = record.control_inode.load(kRelaxed);
  const std::uint64_t number = record.number.load(kRelaxed);
  if (inode == kUnknownFile) return true;
  if (inode != 0 && labels.lives(number, {record.control_device.load(kRelaxed), inode})) return true;
  // A held piece keeps this memory held. The exception is a piece that its own maker holds: the maker has not given
  // that part up.
  bool piece_is_held = false;
  each_record(book.layout->shared, [&](const SharedRecord& piece) {
    if (piece.part_of.load(kRelaxed) != number || !has_holders(piece)) return;
    const std::uint32_t maker = piece.maker.load(kRelaxed);
    if (maker == 0 || maker > kMaxProcesses || !has_bit(piece, maker - 1)) piece_is_held = true;
  });
  return piece_is_held;
}

// Settles one record. Requires the lock. Lent bytes that were given up are moved or refunded only if this process is
// their maker.
void settle_record(const OpenBook& book, SharedRecord& record, LabelSearch& labels) noexcept {
  SharedPart& part = book.layout->shared;
  std::uint64_t word = record.bytes.load(kRelaxed);
  const std::uint64_t given_up = std::min(record.waived.load(kRelaxed), lent_granules(word));
  if (given_up > 0 && book.slot != kNoSlot && record.maker.load(kRelaxed) == book.slot + 1) {
    const bool kept = held_by_others(book, record, labels);
    word = pack(lent_granules(word) - given_up, kept_granules(word) + (kept ? given_up : 0));
    record.bytes.store(word, kRelaxed);
    // This order charges both slots for a moment; the reverse would charge neither.
    if (kept) charge_common(book, record.account, given_up);
    Account(book, record.account).refund(kGranule * given_up, kind_of(record));
    record.waived.fetch_sub(given_up);
  }
  if (lent_granules(word) != 0 || held_by_others(book, record, labels)) return;
  const std::uint32_t account = record.account;
  erase(part, record);
  refund_common(book, account, kept_granules(word));
}

}  // namespace

void SharedMemory::leave(std::uint64_t number) const noexcept {
  SharedRecord* record = book_->slot == kNoSlot ? nullptr : find_record(*book_, number);
  if (record == nullptr) return;
  clear_bit(*record, book_->slot);
  settle();
}

void SharedMemory::give_up(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind) const noexcept {
  SharedRecord* record = book_->slot == kNoSlot || size == Bytes{0} ? nullptr : find_record(*book_, number);
  const bool lent = record != nullptr && record->maker.load(kRelaxed) == book_->slot + 1;
  const std::uint64_t word = lent ? record->bytes.load(kRelaxed) : 0;
  const std::uint64_t waived = std::min(lent_granules(word), granules_of(size));
  if (waived * kGranule.count() < size.count()) Account(*book_, account).refund(size - kGranule * waived, kind);
  if (waived == 0) return;
  record->waived.fetch_add(waived);
  const SharedLock held(*book_);
  if (!held) return;
  LabelSearch labels(book_->layout->shared.control_path);
  settle_record(*book_, *record, labels);
}

void SharedMemory::settle() const noexcept {
  SharedPart& part = book_->layout->shared;
  if (part.bound.load(kRelaxed) == 0) return;
  const SharedLock held(*book_);
  if (!held) return;
  LabelSearch labels(part.control_path);
  // Pieces are settled first, because the memory that contains a piece stays as long as the piece is held.
  for (const bool pieces : {true, false}) {
    each_record(part, [&](SharedRecord& record) {
      if ((record.part_of.load(kRelaxed) != 0) == pieces) settle_record(*book_, record, labels);
    });
  }
}

void release_shares_of(const OpenBook& book, std::uint32_t slot, LabelSearch& labels, ByAccount& kept) noexcept {
  SharedPart& part = book.layout->shared;
  const std::uint32_t bound = std::min<std::uint32_t>(part.bound.load(kRelaxed), kMaxShared);
  for (std::uint32_t index = 0; index < bound; ++index) {
    SharedRecord& record = part.records[index];
    clear_bit(record, slot);
    if (record.maker.load(kRelaxed) == slot + 1 && record.number.load(kRelaxed) == 0) record.maker.store(0);
  }
  each_record(part, [&](SharedRecord& record) {
    if (record.maker.load(kRelaxed) != slot + 1) return;
    const std::uint64_t word = record.bytes.load(kRelaxed), lent = lent_granules(word);
    const bool stays = lent > 0 && held_by_others(book, record, labels);
    record.bytes.store(pack(0, kept_granules(word) + (stays ? lent : 0)), kRelaxed);
    if (stays) {  // the slot's own charge ends when the slot is cleared
      charge_common(book, record.account, lent);
      if (book.has(record.account)) kept[record.account] += kGranule * lent;
    }
    record.waived.store(0, kRelaxed);
    record.maker.store(kNoProcess, kRelaxed);
  });
  for (const bool pieces : {true, false}) {
    each_record(part, [&](SharedRecord& record) {
      if ((record.part_of.load(kRelaxed) != 0) == pieces && lent_granules(record.bytes.load(kRelaxed)) == 0)
        settle_record(book, record, labels);
    });
  }
}

}  // namespace ration::book
