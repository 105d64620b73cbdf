// Charges and refunds: the path that every allocation of a governed program takes. The lock and its recovery, and the
// bytes that a process keeps at hand so that it seldom needs the lock.
#include <algorithm>
#include <cerrno>

#include "ledger/book.hpp"
#include "ledger/layout.hpp"

namespace ration::ledger {
namespace {

// Fields changed only under the lock need no atomic read-modify-write, only stores that readers cannot see torn.
void add(Word& word, std::uint64_t bytes) noexcept { word.store(word.load(kRelaxed) + bytes, kRelaxed); }
void subtract(Word& word, std::uint64_t bytes) noexcept {
  const std::uint64_t now = word.load(kRelaxed);
  word.store(now - std::min(now, bytes), kRelaxed);
}

Word& part_of(SlotRecord& slot, std::uint32_t account, Kind kind) noexcept {
  return kind == Kind::kContext ? slot.context[account] : slot.pooled[account];
}

// A critical section here lasts a few nanoseconds, so a waiter spins about as long as two of them before it sleeps.
constexpr int kSpins = 200;

void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

// ---------------------------------------------------------------------------------------------- lock and recovery

bool Book::lock() noexcept {
  pthread_mutex_t& mutex = layout_->header.lock;
  int outcome = ::pthread_mutex_trylock(&mutex);
  for (int spin = 0; outcome == EBUSY && spin < kSpins; ++spin) {
    pause_briefly();
    outcome = ::pthread_mutex_trylock(&mutex);
  }
  if (outcome == EBUSY) outcome = ::pthread_mutex_lock(&mutex);
  if (outcome == 0) [[likely]]
    return true;
  if (outcome == EOWNERDEAD) {
    recover();
    return ::pthread_mutex_consistent(&mutex) == 0;
  }
  return false;  // EDEADLK: this thread was interrupted inside; ENOTRECOVERABLE: nobody can repair it
}

void Book::unlock() noexcept { ::pthread_mutex_unlock(&layout_->header.lock); }

// The owner died inside: whatever it had half done, the slots say what each process holds, and the journal whether
// spare bytes had left their slot already.
void Book::recover() noexcept {
  BookHeader& header = layout_->header;
  const std::uint32_t folding = header.fold_slot.load(kRelaxed);
  const auto account_folding = static_cast<std::uint32_t>(header.fold_account.load(kRelaxed));
  if (folding > 0 && folding <= kMaxProcesses && account_folding < kMaxAccounts) {
    SlotRecord& slot = layout_->slots[folding - 1];
    const std::uint64_t before = header.fold_spare.load(kRelaxed);
    if (spare_turn(slot.spare[account_folding].load(kRelaxed)) != spare_turn(before)) {
      const std::uint64_t held = header.fold_held.load(kRelaxed);
      slot.held[account_folding].store(held - std::min(held, spare_bytes(before)), kRelaxed);
    }
  }
  header.fold_slot.store(0, kRelaxed);
  std::uint64_t sums[kMaxAccounts] = {};
  std::uint32_t waiters = 0;
  for (SlotRecord& slot : layout_->slots) {
    if (slot.in_use.load(kRelaxed) == 0) continue;
    waiters += slot.waiting.load(kRelaxed);
    for (std::uint32_t account = 0; account < account_count_; ++account)
      sums[account] += slot.held[account].load(kRelaxed);
  }
  for (std::uint32_t account = 0; account < account_count_; ++account) {
    layout_->accounts[account].used.store(sums[account] + layout_->shared.common.held[account].load(kRelaxed),
                                          kRelaxed);
  }
  header.waiters.store(waiters, kRelaxed);
}

// ------------------------------------------------------------------------------------------------ charge and refund

Charged Book::charge(std::uint32_t account, Bytes size, Kind kind, Bytes* raised_from) noexcept {
  if (account >= account_count_) return Charged::kNoAccount;
  if (slot_ == kNoSlot) return Charged::kBroken;
  if (kind == Kind::kHeap && take_spare(account, size.count())) [[likely]]
    return Charged::kGranted;
  if (!lock()) return Charged::kBroken;
  AccountRecord& record = layout_->accounts[account];
  const std::uint64_t limit = record.limit.load(kRelaxed);
  fold(slot_, account);
  std::uint64_t used = record.used.load(kRelaxed);
  const auto fits = [&] { return used <= limit && size.count() <= limit - used; };
  // Others' spare bytes are nobody's: neither a refusal nor a peak may count them.
  if (!fits() || used + size.count() > record.peak.load(kRelaxed)) {
    fold_all(account);
    used = record.used.load(kRelaxed);
  }
  if (!fits()) {
    unlock();
    return Charged::kOverLimit;
  }
  SlotRecord& slot = layout_->slots[slot_];
  add(slot.held[account], size.count());  // the slot first: it is what recovery believes
  const std::uint64_t now_used = used + size.count();
  record.used.store(now_used, kRelaxed);
  if (const std::uint64_t peak = record.peak.load(kRelaxed); now_used > peak) {
    record.peak.store(now_used, kRelaxed);
    if (raised_from != nullptr) *raised_from = Bytes{peak};
  }
  if (kind != Kind::kHeap) add(part_of(slot, account, kind), size.count());
  unlock();
  return Charged::kGranted;
}

void Book::charge_unconditionally(std::uint32_t account, Bytes size, Kind kind) noexcept {
  if (account >= account_count_ || slot_ == kNoSlot || !lock()) return;
  fold_all(account);
  AccountRecord& record = layout_->accounts[account];
  SlotRecord& slot = layout_->slots[slot_];
  add(slot.held[account], size.count());
  add(record.used, size.count());
  if (record.used.load(kRelaxed) > record.peak.load(kRelaxed)) record.peak.store(record.used.load(kRelaxed), kRelaxed);
  if (kind != Kind::kHeap) add(part_of(slot, account, kind), size.count());
  unlock();
}

void Book::refund(std::uint32_t account, Bytes size, Kind kind) noexcept {
  if (account >= account_count_ || slot_ == kNoSlot) return;
  if (kind == Kind::kHeap && keep_spare(account, size.count())) [[likely]]
    return;
  if (!lock()) return;
  fold(slot_, account);
  SlotRecord& slot = layout_->slots[slot_];
  const std::uint64_t returned = std::min(size.count(), slot.held[account].load(kRelaxed));
  subtract(slot.held[account], returned);
  subtract(layout_->accounts[account].used, returned);
  if (kind != Kind::kHeap) subtract(part_of(slot, account, kind), returned);
  unlock();
  wake_waiters();
}

// Whoever raised the peak since then did so on top of these bytes.
void Book::undo(std::uint32_t account, Bytes size, Kind kind, Bytes raised_from) noexcept {
  if (account >= account_count_ || slot_ == kNoSlot) return;
  if (raised_from < kUnlimited && lock()) {
    Word& peak = layout_->accounts[account].peak;
    const std::uint64_t now = peak.load(kRelaxed);
    peak.store(std::max(raised_from.count(), now - std::min(now, size.count())), kRelaxed);
    unlock();
  }
  refund(account, size, kind);
}

// From one process to what the workload holds in common, or away, where either is null. `used` is right after it.
void Book::move_held(SlotRecord* from, SlotRecord* to, std::uint32_t account, std::uint64_t granules,
                     Kind kind) noexcept {
  const std::uint64_t bytes = granules * kGranule.count();
  if (bytes == 0 || account >= account_count_ || !lock()) return;
  Word& used = layout_->accounts[account].used;
  if (to != nullptr) {
    add(to->held[account], bytes);
    add(used, bytes);
  }
  if (from != nullptr) {
    const std::uint64_t returned = std::min(bytes, from->held[account].load(kRelaxed));
    subtract(from->held[account], returned);
    subtract(used, returned);
    if (kind != Kind::kHeap) subtract(part_of(*from, account, kind), returned);
  }
  unlock();
  if (to == nullptr) wake_waiters();
}

// --------------------------------------------------------------------------------------------- bytes kept at hand

// `used` counts spare bytes, so while it is within the limit, using them stays within it too.
bool Book::take_spare(std::uint32_t account, std::uint64_t size) noexcept {
  const AccountRecord& record = layout_->accounts[account];
  Word& spare = layout_->slots[slot_].spare[account];
  std::uint64_t seen = spare.load(kRelaxed);
  while (spare_bytes(seen) >= size) {
    if (record.used.load(std::memory_order_acquire) > record.limit.load(std::memory_order_acquire)) return false;
    if (spare.compare_exchange_weak(seen, seen - size, std::memory_order_acq_rel, kRelaxed)) return true;
  }
  return false;
}

// Where somebody waits, or the account is to shrink, bytes go back at once.
bool Book::keep_spare(std::uint32_t account, std::uint64_t size) noexcept {
  const BookHeader& header = layout_->header;
  const AccountRecord& record = layout_->accounts[account];
  SlotRecord& slot = layout_->slots[slot_];
  std::uint64_t seen = slot.spare[account].load(std::memory_order_acquire);
  for (;;) {
    const std::uint64_t kept = spare_bytes(seen) + size;
    if (size > kSpareMost.count() || kept > kSpareMost.count() || kept > slot.held[account].load(kRelaxed))
      return false;
    if (header.waiters.load(kRelaxed) != 0 || record.used.load(kRelaxed) > record.limit.load(kRelaxed)) return false;
    if (slot.spare[account].compare_exchange_weak(seen, seen + size, std::memory_order_seq_cst,
                                                  std::memory_order_acquire))
      break;
  }
  // One who began to wait since then has looked for spare bytes before these were there: wake it. (It counts itself
  // before it looks; both sides are sequentially consistent, so one of the two sees the other.)
  if (header.waiters.load(std::memory_order_seq_cst) != 0 && lock()) {
    fold(slot_, account);
    unlock();
    wake_waiters();
  }
  return true;
}

// Under the lock. The journal is written before the bytes leave the slot and cleared when the sums are right again.
void Book::fold(std::uint32_t index, std::uint32_t account) noexcept {
  BookHeader& header = layout_->header;
  SlotRecord& slot = layout_->slots[index];
  Word& spare = slot.spare[account];
  std::uint64_t seen = spare.load(std::memory_order_acquire);
  if (spare_bytes(seen) == 0) return;
  const std::uint64_t held = slot.held[account].load(kRelaxed);
  header.fold_account.store(account, kRelaxed);
  header.fold_held.store(held, kRelaxed);
  do {
    header.fold_spare.store(seen, kRelaxed);
    header.fold_slot.store(index + 1, std::memory_order_release);
  } while (!spare.compare_exchange_strong(seen, (spare_turn(seen) + 1) << kTurnShift, std::memory_order_seq_cst,
                                          std::memory_order_acquire));
  const std::uint64_t bytes = spare_bytes(seen);
  slot.held[account].store(held - std::min(held, bytes), kRelaxed);
  subtract(layout_->accounts[account].used, bytes);
  header.fold_slot.store(0, std::memory_order_release);
}

void Book::fold_all(std::uint32_t account) noexcept {
  const std::uint32_t bound = std::min<std::uint32_t>(layout_->header.slot_bound.load(kRelaxed), kMaxProcesses);
  for (std::uint32_t index = 0; index < bound; ++index) {
    if (layout_->slots[index].in_use.load(kRelaxed) != 0) fold(index, account);
  }
}

}  // namespace ration::ledger
