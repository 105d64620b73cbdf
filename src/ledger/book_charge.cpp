// Charges and refunds: the path that every allocation of a governed program takes. There is no lock between processes,
// so a process that is stopped, debugged or killed at any instruction delays nobody.
//
// A change of an account is one compare-and-exchange on its usage word. Before it, the process announces in its slot
// which change it is about to make and what it will hold then; after it, it enters that and withdraws the announcement.
// Whoever replaces a usage word first confirms in the slot of its last writer that the change in it was made. So what a
// dead process held can be told exactly: what it had entered, or, if its announced change stands in the usage word or
// is confirmed, what it had announced. tests/model/book.pml is this protocol for a model checker.
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "ledger/book.hpp"
#include "ledger/layout.hpp"

namespace ration::ledger {
namespace {

void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Raises `word` to `value` unless it is higher, and returns what it was.
std::uint64_t raise(Word& word, std::uint64_t value) noexcept {
  std::uint64_t seen = word.load(kRelaxed);
  while (seen < value && !word.compare_exchange_weak(seen, value, std::memory_order_release, kRelaxed)) {
  }
  return seen;
}

/// Takes `bytes` off `word`, but leaves it no lower than `least`.
void lower(Word& word, std::uint64_t bytes, std::uint64_t least) noexcept {
  std::uint64_t seen = word.load(kRelaxed);
  while (!word.compare_exchange_weak(seen, std::max(least, seen - std::min(seen, bytes)), kRelaxed)) {
  }
}

// Threads of one process take turns at their slot. A turn lasts a few nanoseconds unless its thread loses the
// processor.
constexpr int kSpins = 200, kYields = 1000, kNaps = 10'000;
constexpr timespec kTurnNap{0, 100'000};

/// False: whoever has the turn does not go on. This thread interrupted it in a signal handler, or a debugger stopped
/// it.
[[gnu::noinline]] bool wait_for_turn(Word& change) noexcept {
  for (int tries = 0; tries < kSpins + kYields + kNaps; ++tries) {
    if (tries < kSpins)
      pause_briefly();
    else if (tries < kSpins + kYields)
      ::sched_yield();
    else
      ::syscall(SYS_nanosleep, &kTurnNap, nullptr);  // nanosleep() would be a place to cancel this thread at
    std::uint64_t none = kNoChange;
    if (change.load(kRelaxed) == kNoChange &&
        change.compare_exchange_weak(none, kPreparing, std::memory_order_acquire, kRelaxed))
      return true;
  }
  return false;
}

bool take_turn(Word& change) noexcept {
  std::uint64_t none = kNoChange;
  return change.compare_exchange_strong(none, kPreparing, std::memory_order_acquire, kRelaxed) || wait_for_turn(change);
}

}  // namespace

/// Sees to it that everybody can tell that the change in `usage` was made once that word is replaced.
[[gnu::noinline]] void Book::confirm(std::uint32_t account, std::uint64_t usage) noexcept {
  const std::uint32_t index = last_slot(usage);
  SlotRecord& slot = layout_->slots[index];
  const std::uint64_t change = slot.change.load(std::memory_order_acquire);
  std::uint64_t number = change_number(change);
  if (!is_announced(change, account) || !made_by(usage, index, number)) {
    // Entered already, or the refund of what a dead process held.
    if (life_of(slot.state.load(std::memory_order_acquire)) != SlotLife::kDead) return;
    number = last_number(slot, account);
    if (!made_by(usage, index, number)) return;
  }
  // The announcement was read after the word: only if the word still stands do they belong together.
  if (layout_->accounts[account].usage.load(std::memory_order_acquire) == usage) raise(slot.confirmed[account], number);
}

/// What an account and this process's part of it become, or that they stay.
struct Book::Amounts {
  std::uint64_t used, held;
  bool allowed;
};

[[gnu::always_inline]] inline Book::Amounts Book::amounts_after(Step step, std::uint64_t size, std::uint64_t used,
                                                                std::uint64_t held, std::uint64_t limit) noexcept {
  if (step == Step::kRefund) {
    const std::uint64_t returned = std::min({size, held, used});
    return {used - returned, held - returned, true};
  }
  if (step == Step::kForce) size = std::min(size, kMaxUsed - used);
  const std::uint64_t most = step == Step::kForce ? kMaxUsed : std::min(limit, kMaxUsed);
  return {used + size, held + size, used <= most && size <= most - used};
}

/// One attempt at a change, by the thread that has the turn. `seen`: the usage word that it replaces; if another stands
/// there, that one afterwards.
[[gnu::always_inline]] inline bool Book::attempt(std::uint32_t index, std::uint32_t account, std::uint64_t& seen,
                                                 Amounts after) noexcept {
  SlotRecord& slot = layout_->slots[index];
  const std::uint64_t number = slot.changes[account].load(kRelaxed) + 1;
  slot.change_held.store(after.held, kRelaxed);
  slot.change.store(announced(number, account), std::memory_order_release);
  Word& usage = layout_->accounts[account].usage;
  if (!usage.compare_exchange_strong(seen, usage_word(after.used, index, number))) return false;
  slot.held[account].store(after.held, kRelaxed);
  slot.changes[account].store(number, kRelaxed);
  slot.change.store(kNoChange, std::memory_order_release);
  return true;
}

/// Makes one change of `account` in the name of that slot: this process's, or the common one under the lock of the
/// shared part. The first attempt, nearly always the only one, stands apart
/// from the others: every register that is saved on the way to a locked instruction costs as much as the instruction.
[[gnu::always_inline]] inline Book::Changed Book::change(std::uint32_t index, Step step, std::uint32_t account,
                                                         std::uint64_t size) noexcept {
  SlotRecord& slot = layout_->slots[index];
  if (!take_turn(slot.change)) [[unlikely]]
    return {Outcome::kStuck, 0};
  const AccountRecord& record = layout_->accounts[account];
  std::uint64_t seen = record.usage.load(std::memory_order_seq_cst);
  const std::uint64_t used = used_bytes(seen);
  const Amounts after = amounts_after(step, size, used, slot.held[account].load(kRelaxed), record.limit.load(kRelaxed));
  if (!after.allowed) [[unlikely]] {
    slot.change.store(kNoChange, std::memory_order_release);
    return {Outcome::kOverLimit, used};
  }
  if (last_slot(seen) != index || !attempt(index, account, seen, after)) [[unlikely]]
    return change_contended(index, step, account, size, seen);
  return {Outcome::kMade, after.used};
}

[[gnu::noinline]] Book::Changed Book::change_contended(std::uint32_t index, Step step, std::uint32_t account,
                                                       std::uint64_t size, std::uint64_t seen) noexcept {
  SlotRecord& slot = layout_->slots[index];
  for (;;) {
    const Amounts after = amounts_after(step, size, used_bytes(seen), slot.held[account].load(kRelaxed),
                                        layout_->accounts[account].limit.load(std::memory_order_acquire));
    if (!after.allowed) {
      slot.change.store(kNoChange, std::memory_order_release);
      return {Outcome::kOverLimit, used_bytes(seen)};
    }
    if (last_slot(seen) != index) confirm(account, seen);
    if (attempt(index, account, seen, after)) return {Outcome::kMade, after.used};
  }
}

Word& Book::part_of(std::uint32_t account, Kind kind) noexcept {
  return kind == Kind::kContext ? own_->context[account] : own_->pooled[account];
}

Charged Book::charge(std::uint32_t account, Bytes size, Kind kind, Bytes* raised_from) noexcept {
  if (account >= account_count_) return Charged::kNoAccount;
  if (own_ == nullptr) return Charged::kBroken;
  const Changed changed = change(slot_, Step::kCharge, account, size.count());
  if (changed.outcome != Outcome::kMade) [[unlikely]]
    return changed.outcome == Outcome::kOverLimit ? Charged::kOverLimit : Charged::kBroken;
  if (changed.used > layout_->accounts[account].peak.load(kRelaxed)) [[unlikely]] {
    const std::uint64_t before = raise(layout_->accounts[account].peak, changed.used);
    if (before < changed.used && raised_from != nullptr) *raised_from = Bytes{before};
  }
  if (kind != Kind::kHeap) part_of(account, kind).fetch_add(size.count(), kRelaxed);
  return Charged::kGranted;
}

void Book::charge_unconditionally(std::uint32_t account, Bytes size, Kind kind) noexcept {
  if (account >= account_count_ || own_ == nullptr) return;
  const Changed changed = change(slot_, Step::kForce, account, size.count());
  if (changed.outcome != Outcome::kMade) return;
  raise(layout_->accounts[account].peak, changed.used);
  if (kind != Kind::kHeap) part_of(account, kind).fetch_add(size.count(), kRelaxed);
}

void Book::refund(std::uint32_t account, Bytes size, Kind kind) noexcept {
  if (account >= account_count_ || own_ == nullptr) return;
  if (change(slot_, Step::kRefund, account, size.count()).outcome != Outcome::kMade) return;
  if (kind != Kind::kHeap) lower(part_of(account, kind), size.count(), 0);
  // Whoever began to wait before the change finds the bytes; whoever did later has counted itself by now.
  if (layout_->header.waiters.load(std::memory_order_seq_cst) != 0) wake_waiters();
}

// Whoever raised the peak since then did so on top of these bytes.
void Book::undo(std::uint32_t account, Bytes size, Kind kind, Bytes raised_from) noexcept {
  if (account >= account_count_ || own_ == nullptr) return;
  if (raised_from < kUnlimited) lower(layout_->accounts[account].peak, size.count(), raised_from.count());
  refund(account, size, kind);
}

void Book::charge_common(std::uint32_t account, std::uint64_t granules) noexcept {
  if (account < account_count_ && granules > 0) change(kCommonSlot, Step::kForce, account, granules * kGranule.count());
}

void Book::refund_common(std::uint32_t account, std::uint64_t granules) noexcept {
  if (account >= account_count_ || granules == 0) return;
  change(kCommonSlot, Step::kRefund, account, granules * kGranule.count());
  wake_waiters();
}

// ------------------------------------------------------------------------------------------- what the dead held

/// The number of the change that refunds what a dead process held: one more than any that it announced.
std::uint64_t Book::last_number(const SlotRecord& slot, std::uint32_t account) noexcept {
  const std::uint64_t change = slot.change.load(std::memory_order_acquire);
  const std::uint64_t made = slot.changes[account].load(kRelaxed);
  return std::max(made, is_announced(change, account) ? change_number(change) : 0) + 1;
}

// Every process may do this for the same slot at the same time, and stop anywhere: the refund is a change in the dead
// process's name, so it stands in the usage word or is confirmed, and nobody makes it twice.
Bytes Book::refund_dead(std::uint32_t index, std::uint32_t account, std::uint64_t state) noexcept {
  SlotRecord& slot = layout_->slots[index];
  Word& usage = layout_->accounts[account].usage;
  std::uint64_t seen = usage.load(std::memory_order_acquire);
  for (;;) {
    const std::uint64_t last = last_number(slot, account), change = slot.change.load(std::memory_order_acquire);
    const std::uint64_t confirmed = slot.confirmed[account].load(std::memory_order_acquire);
    if (made_by(seen, index, last) || confirmed >= last) return {};
    const bool made = is_announced(change, account) &&
                      (made_by(seen, index, change_number(change)) || confirmed >= change_number(change));
    const std::uint64_t held = (made ? slot.change_held : slot.held[account]).load(std::memory_order_acquire);
    if (slot.state.load(std::memory_order_acquire) != state || held == 0) return {};
    confirm(account, seen);
    const std::uint64_t returned = std::min(held, used_bytes(seen));
    if (usage.compare_exchange_strong(seen, usage_word(used_bytes(seen) - returned, index, last)))
      return Bytes{returned};
  }
}

}  // namespace ration::ledger
