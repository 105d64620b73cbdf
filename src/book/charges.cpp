// Charges and refunds: the path that every allocation of a governed program takes. There is no lock between processes,
// so a process that is stopped, debugged or killed at any instruction delays no other.
//
// A change of an account is one compare-and-exchange on its usage word. Before the exchange, the process announces in
// its slot the change and the holdings that result; after the exchange, the process enters these holdings and withdraws
// the announcement. A process that replaces a usage word first confirms, in the slot of the word's last writer, that
// the change in the word was made. So the holdings of a dead process are always known exactly. They are the announced
// ones if the announced change stands in the usage word or is confirmed, and otherwise the entered ones.
// tests/model/book.pml describes this protocol for a model checker.
#include "book/charges.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "book/account.hpp"
#include "book/line.hpp"
#include "book/waiting.hpp"

namespace ration::book {
namespace {

void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Raises `word` to `value` if the word is lower. Returns the former value of the word.
std::uint64_t raise(Word& word, std::uint64_t value) noexcept {
  std::uint64_t seen = word.load(kRelaxed);
  while (seen < value && !word.compare_exchange_weak(seen, value, std::memory_order_release, kRelaxed)) {
  }
  return seen;
}

/// Takes `bytes` off `word`, but leaves it no lower than `least`.
void take_off(Word& word, std::uint64_t bytes, std::uint64_t least) noexcept {
  std::uint64_t seen = word.load(kRelaxed);
  while (!word.compare_exchange_weak(seen, std::max(least, seen - std::min(seen, bytes)), kRelaxed)) {
  }
}

// The tries of a thread that waits for its turn at the slot of its process: first it spins, then it yields, then it
// naps. A turn lasts a few nanoseconds unless the thread that has the turn loses the processor.
constexpr int kSpins = 200, kYields = 1000, kNaps = 10'000;
constexpr timespec kTurnNap{0, 100'000};

/// Waits for the turn. Returns false if the thread that has the turn makes no progress: this call runs in a signal
/// handler that interrupted the turn, or a debugger stopped that thread.
[[gnu::noinline]] bool wait_for_turn(Word& change) noexcept {
  for (int tries = 0; tries < kSpins + kYields + kNaps; ++tries) {
    if (tries < kSpins)
      pause_briefly();
    else if (tries < kSpins + kYields)
      ::sched_yield();
    else
      ::syscall(SYS_nanosleep, &kTurnNap, nullptr);  // nanosleep() would be a cancellation point
    std::uint64_t none = kNoChange;
    if (change.load(kRelaxed) == kNoChange &&
        change.compare_exchange_weak(none, kPreparing, std::memory_order_acquire, kRelaxed))
      return true;
  }
  return false;
}

[[gnu::always_inline]] inline bool take_turn(Word& change) noexcept {
  std::uint64_t none = kNoChange;
  return change.compare_exchange_strong(none, kPreparing, std::memory_order_acquire, kRelaxed);
}

/// Records in the writer's slot that the change in `usage` was made, so that the word can be replaced.
[[gnu::noinline]] void confirm(const OpenBook& book, std::uint32_t account, std::uint64_t usage) noexcept {
  const std::uint32_t index = last_slot(usage);
  SlotRecord& slot = book.layout->slots[index];
  const std::uint64_t change = slot.change.load(std::memory_order_acquire);
  std::uint64_t number = change_number(change);
  if (!is_announced(change, account) || !made_by(usage, index, number)) {
    // A living writer has entered the change already. Only the refund of what a dead process held is left to confirm.
    if (life_of(slot.state.load(std::memory_order_acquire)) != SlotLife::kDead) return;
    number = last_number(slot, account);
    if (!made_by(usage, index, number)) return;
  }
  // The announcement was read after the word, so the two belong together only if the word is unchanged.
  if (usage_of(*book.layout, account).load(std::memory_order_acquire) == usage)
    raise(holdings_of(slot, account).confirmed, number);
}

enum class Step { kCharge, kForce, kRefund };
/// The outcome of an attempt at a change. If the first attempt fails, kNoTurn means that the thread still waits for its
/// turn, kHasTurn means that the thread has its turn.
enum class Outcome { kMade, kNoTurn, kHasTurn, kOverLimit, kStuck };
struct Changed {
  Outcome outcome;
  std::uint64_t used;
  std::uint64_t used_before = 0;  // set only if the change was made

  [[nodiscard]] std::int64_t change() const noexcept { return static_cast<std::int64_t>(used - used_before); }
};

/// The amounts of an account and of a slot's part of it after a change, and whether the change is allowed.
struct Amounts {
  std::uint64_t used, held;
  bool allowed;
};

[[gnu::always_inline]] inline Amounts amounts_after(Step step, std::uint64_t size, std::uint64_t used,
                                                    std::uint64_t held, std::uint64_t limit) noexcept {
  if (step == Step::kRefund) {
    const std::uint64_t returned = std::min(size, std::min(held, used));
    return {used - returned, held - returned, true};
  }
  if (step == Step::kForce) size = std::min(size, kMaxUsed - used);
  const std::uint64_t most = step == Step::kForce ? kMaxUsed : std::min(limit, kMaxUsed);
  return {used + size, held + size, used <= most && size <= most - used};
}

/// The target of a change: an account, and the part of it that a slot holds.
struct Target {
  Word& usage;
  SlotRecord& slot;
  Holdings& holdings;
  std::uint32_t account, slot_index;
};

/// Returns the account and this process's slot as a target. Choosing between a device's account and the host's costs
/// nothing if the compiler knows which of the two `account` is.
[[gnu::always_inline]] inline Target own_target(const OpenBook& book, SlotRecord& own, std::uint32_t account) noexcept {
  return {usage_of(*book.layout, account), own, holdings_of(own, account), account, book.slot};
}
Target own_target(const OpenBook& book, std::uint32_t account) noexcept { return own_target(book, *book.own, account); }

/// Returns the common slot as a target. Changes of it require the lock of the shared part.
Target common_target(const OpenBook& book, std::uint32_t account) noexcept {
  SlotRecord& slot = book.layout->slots[kCommonSlot];
  return {usage_of(*book.layout, account), slot, holdings_of(slot, account), account, kCommonSlot};
}

/// Returns the bytes that may be charged in total: the lower of the two limits, less what the driver holds beyond all
/// charges.
[[gnu::always_inline]] inline std::uint64_t room(const OpenBook& book, std::uint32_t account) noexcept {
  const BookLayout& layout = *book.layout;
  if (account == kHostAccount)
    return std::min(layout.host.limit.load(std::memory_order_acquire), layout.host.own_limit.load(kRelaxed));
  const std::uint64_t limit = std::min(layout.accounts[account].limit.load(std::memory_order_acquire),
                                       layout.header.own_limit[account].load(kRelaxed));
  const std::uint64_t beside = unrequested_bytes(layout.header.unrequested[account].load(kRelaxed));
  return limit - std::min(limit, beside);
}

/// Attempts a change once. Requires that the calling thread has the turn. `seen` is the usage word to be replaced. If
/// the account has another usage word by now, sets `seen` to that word and returns false.
[[gnu::always_inline]] inline bool attempt(const Target& target, std::uint64_t& seen, Amounts after) noexcept {
  const std::uint64_t number = target.holdings.changes.load(kRelaxed) + 1;
  target.slot.change_held.store(after.held, kRelaxed);
  target.slot.change.store(announced(number, target.account), std::memory_order_release);
  if (!target.usage.compare_exchange_strong(seen, usage_word(after.used, target.slot_index, number))) return false;
  target.holdings.held.store(after.held, kRelaxed);
  target.holdings.changes.store(number, kRelaxed);
  target.slot.change.store(kNoChange, std::memory_order_release);
  return true;
}

/// Makes the first attempt at a change, nearly always the only one. Calls no function, and reads as much as it can
/// before it takes the turn: saving a register before a locked instruction, or loading a word after one, costs as much
/// as the instruction itself. If the usage word changes after it was read, the attempt fails.
[[gnu::always_inline]] inline Changed first_attempt(const OpenBook& book, const Target& target, Step step,
                                                    std::uint64_t size) noexcept {
  std::uint64_t seen = target.usage.load(std::memory_order_seq_cst);
  const std::uint64_t used = used_bytes(seen), limit = room(book, target.account);
  if (!take_turn(target.slot.change)) [[unlikely]]
    return {Outcome::kNoTurn, 0};
  const Amounts after = amounts_after(step, size, used, target.holdings.held.load(kRelaxed), limit);
  const bool made = after.allowed && last_slot(seen) == target.slot_index && attempt(target, seen, after);
  return {made ? Outcome::kMade : Outcome::kHasTurn, after.used, used};
}

/// Makes a change whose first attempt failed. `first` says whether the thread has the turn already.
[[gnu::noinline]] Changed change_after(const OpenBook& book, Outcome first, const Target& target, Step step,
                                       std::uint64_t size) noexcept {
  if (first == Outcome::kNoTurn && !wait_for_turn(target.slot.change)) return {Outcome::kStuck, 0};
  std::uint64_t seen = target.usage.load(std::memory_order_seq_cst);
  for (;;) {
    const Amounts after =
        amounts_after(step, size, used_bytes(seen), target.holdings.held.load(kRelaxed), room(book, target.account));
    if (!after.allowed) {
      target.slot.change.store(kNoChange, std::memory_order_release);
      return {Outcome::kOverLimit, used_bytes(seen)};
    }
    if (last_slot(seen) != target.slot_index) confirm(book, target.account, seen);
    if (attempt(target, seen, after)) return {Outcome::kMade, after.used, used_bytes(seen)};
  }
}

Changed change(const OpenBook& book, const Target& target, Step step, std::uint64_t size) noexcept {
  const Changed first = first_attempt(book, target, step, size);
  return first.outcome == Outcome::kMade ? first : change_after(book, first.outcome, target, step, size);
}

/// Returns true if the slot also counts the bytes of that kind separately. On a device it does so for every kind except
/// kHeap.
bool has_part(std::uint32_t account, Kind kind) noexcept { return kind != Kind::kHeap && account != kHostAccount; }

Word& part_of(const OpenBook& book, std::uint32_t account, Kind kind) noexcept {
  Part& part = book.own->parts[account];
  return kind == Kind::kContext ? part.context : kind == Kind::kPool ? part.pooled : part.managed;
}

/// Reports the change to the listener of the book, if there is one.
void tell(const OpenBook& book, std::uint32_t account, const Changed& changed, Kind kind,
          bool common = false) noexcept {
  if (const ChargeListener listener = book.current_listener(); listener != nullptr)
    listener(account, changed.change(), kind, common);
}

[[gnu::noinline]] Charged note_charge(const OpenBook& book, std::uint32_t account, Bytes size, Kind kind,
                                      Bytes* raised_from, const Changed& changed) noexcept {
  tell(book, account, changed, kind);
  std::uint64_t used = changed.used;
  Word& peak = peak_of(*book.layout, account);
  // The holdings of ended processes are no part of a peak.
  if (used > peak.load(kRelaxed)) used -= std::min(used, refund_ended(book, account).count());
  const std::uint64_t before = raise(peak, used);
  if (before < used && raised_from != nullptr) *raised_from = Bytes{before};
  if (has_part(account, kind)) part_of(book, account, kind).fetch_add(size.count(), kRelaxed);
  return Charged::kGranted;
}

[[gnu::noinline]] Charged charge_after(const OpenBook& book, Outcome first, std::uint32_t account, Bytes size,
                                       Kind kind, Bytes* raised_from) noexcept {
  const Changed changed = change_after(book, first, own_target(book, account), Step::kCharge, size.count());
  if (changed.outcome != Outcome::kMade)
    return changed.outcome == Outcome::kOverLimit ? Charged::kOverLimit : Charged::kBroken;
  return note_charge(book, account, size, kind, raised_from, changed);
}

/// Charges an account that has a line of waiting threads, unless one of those threads comes first.
[[gnu::noinline]] Charged charge_in_turn(const OpenBook& book, std::uint32_t account, Bytes size, Kind kind,
                                         Bytes* raised_from) noexcept {
  if (Line(book, account).others_come_first()) return Charged::kBehind;
  return charge_after(book, Outcome::kNoTurn, account, size, kind, raised_from);
}

/// Returns true if threads wait for bytes. This is called after a refund: a thread that began to wait before the refund
/// has counted itself, and a thread that begins later finds the refunded bytes.
[[gnu::always_inline]] inline bool is_waited_for(const OpenBook& book) noexcept {
  return book.layout->header.waiters.load(std::memory_order_seq_cst) != 0;
}

/// Completes a refund after its first attempt. If `first` is kMade, that attempt changed the account by `bytes`;
/// otherwise the refund is tried again.
[[gnu::noinline]] void refund_after(const OpenBook& book, Outcome first, std::uint32_t account, Bytes size, Kind kind,
                                    std::int64_t bytes) noexcept {
  if (first != Outcome::kMade) {
    const Changed changed = change_after(book, first, own_target(book, account), Step::kRefund, size.count());
    if (changed.outcome != Outcome::kMade) return;
    bytes = changed.change();
  }
  if (const ChargeListener listener = book.current_listener(); listener != nullptr)
    listener(account, bytes, kind, false);
  if (has_part(account, kind)) take_off(part_of(book, account, kind), size.count(), 0);
  if (is_waited_for(book)) Waiting(book).wake();
}

/// Returns true if the account is a device's; the compiler then knows that `account` is not kHostAccount.
[[gnu::always_inline]] inline bool is_of_device(const OpenBook& book, std::uint32_t account) noexcept {
  if (account >= book.account_count) return false;
  if (account == kHostAccount) __builtin_unreachable();
  return true;
}

/// Charges an account when enter_in_account() cannot take its fast path: a listener is set, or the process has no slot.
[[gnu::noinline]] Charged enter_and_tell(const OpenBook& book, std::uint32_t account, Bytes size, Kind kind,
                                         Bytes* raised_from) noexcept {
  if (book.own == nullptr) return Charged::kBroken;
  if (newest_of(*book.layout, account).load(kRelaxed) != 0)
    return charge_in_turn(book, account, size, kind, raised_from);
  const Changed first = first_attempt(book, own_target(book, account), Step::kCharge, size.count());
  if (first.outcome != Outcome::kMade) return charge_after(book, first.outcome, account, size, kind, raised_from);
  return note_charge(book, account, size, kind, raised_from, first);
}

/// Refunds when take_off_account() cannot take its fast path: a listener is set, or the process has no slot.
[[gnu::noinline]] void take_off_and_tell(const OpenBook& book, std::uint32_t account, Bytes size, Kind kind) noexcept {
  if (book.own == nullptr) return;
  const Changed first = first_attempt(book, own_target(book, account), Step::kRefund, size.count());
  refund_after(book, first.outcome, account, size, kind, first.change());
}

[[gnu::always_inline]] inline Charged enter_in_account(const OpenBook& book, std::uint32_t account, Bytes size,
                                                       Kind kind, Bytes* raised_from) noexcept {
  SlotRecord* own = book.quiet_slot();
  if (own == nullptr) [[unlikely]]
    return enter_and_tell(book, account, size, kind, raised_from);
  if (newest_of(*book.layout, account).load(kRelaxed) != 0) [[unlikely]]
    return charge_in_turn(book, account, size, kind, raised_from);
  const Changed first = first_attempt(book, own_target(book, *own, account), Step::kCharge, size.count());
  if (first.outcome != Outcome::kMade) [[unlikely]]
    return charge_after(book, first.outcome, account, size, kind, raised_from);
  const bool is_done = kind == Kind::kHeap && first.used <= peak_of(*book.layout, account).load(kRelaxed);
  if (!is_done) [[unlikely]]
    return note_charge(book, account, size, kind, raised_from, first);
  return Charged::kGranted;
}

[[gnu::always_inline]] inline void take_off_account(const OpenBook& book, std::uint32_t account, Bytes size,
                                                    Kind kind) noexcept {
  SlotRecord* own = book.quiet_slot();
  if (own == nullptr) [[unlikely]]
    return take_off_and_tell(book, account, size, kind);
  const Changed first = first_attempt(book, own_target(book, *own, account), Step::kRefund, size.count());
  const bool done = first.outcome == Outcome::kMade && kind == Kind::kHeap && !is_waited_for(book);
  if (!done) [[unlikely]]
    refund_after(book, first.outcome, account, size, kind, first.change());
}

}  // namespace

Charged Account::charge_in(const OpenBook& book, std::uint32_t index, Bytes size, Kind kind,
                           Bytes* raised_from) noexcept {
  if (is_of_device(book, index)) [[likely]]
    return enter_in_account(book, index, size, kind, raised_from);
  return book.has(index) ? enter_in_account(book, kHostAccount, size, kind, raised_from) : Charged::kNoAccount;
}

void Account::charge_unconditionally(Bytes size, Kind kind) const noexcept {
  if (!exists() || book_->own == nullptr) return;
  const Changed changed = change(*book_, own_target(*book_, index_), Step::kForce, size.count());
  if (changed.outcome != Outcome::kMade) return;
  (void)note_charge(*book_, index_, size, kind, nullptr, changed);
}

void Account::refund_in(const OpenBook& book, std::uint32_t index, Bytes size, Kind kind) noexcept {
  if (is_of_device(book, index)) [[likely]]
    take_off_account(book, index, size, kind);
  else if (book.has(index))
    take_off_account(book, kHostAccount, size, kind);
}

// Also lowers a peak that another thread has raised since the charge, because that peak includes these bytes.
void Account::undo(Bytes size, Kind kind, Bytes raised_from) const noexcept {
  if (!exists() || book_->own == nullptr) return;
  if (raised_from < kUnlimited) take_off(peak_of(*book_->layout, index_), size.count(), raised_from.count());
  refund(size, kind);
}

void charge_common(const OpenBook& book, std::uint32_t account, std::uint64_t granules) noexcept {
  if (!book.has(account) || granules == 0) return;
  const Changed changed = change(book, common_target(book, account), Step::kForce, granules * kGranule.count());
  if (changed.outcome == Outcome::kMade) tell(book, account, changed, Kind::kHeap, true);
}

void refund_common(const OpenBook& book, std::uint32_t account, std::uint64_t granules) noexcept {
  if (!book.has(account) || granules == 0) return;
  const Changed changed = change(book, common_target(book, account), Step::kRefund, granules * kGranule.count());
  if (changed.outcome == Outcome::kMade) tell(book, account, changed, Kind::kHeap, true);
  Waiting(book).wake();
}

// ------------------------------------------------------------------------------------------- refunds for the dead

std::uint64_t last_number(const SlotRecord& slot, std::uint32_t account) noexcept {
  const std::uint64_t change = slot.change.load(std::memory_order_acquire);
  const std::uint64_t made = holdings_of(slot, account).changes.load(kRelaxed);
  return std::max(made, is_announced(change, account) ? change_number(change) : 0) + 1;
}

Bytes refund_dead(const OpenBook& book, std::uint32_t index, std::uint32_t account, std::uint64_t state) noexcept {
  SlotRecord& slot = book.layout->slots[index];
  Word& usage = usage_of(*book.layout, account);
  std::uint64_t seen = usage.load(std::memory_order_acquire);
  for (;;) {
    const std::uint64_t last = last_number(slot, account);
    if (made_by(seen, index, last) || holdings_of(slot, account).confirmed.load(std::memory_order_acquire) >= last)
      return {};
    const std::uint64_t held = held_in(slot, index, account, seen);
    if (slot.state.load(std::memory_order_acquire) != state || held == 0) return {};
    confirm(book, account, seen);
    const std::uint64_t returned = std::min(held, used_bytes(seen));
    if (usage.compare_exchange_strong(seen, usage_word(used_bytes(seen) - returned, index, last)))
      return Bytes{returned};
  }
}

}  // namespace ration::book
