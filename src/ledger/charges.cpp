// Charges and refunds: the path that every allocation of a governed program takes. There is no lock between processes,
// so a process that is stopped, debugged or killed at any instruction delays nobody.
//
// A change of an account is one compare-and-exchange on its usage word. Before it, the process announces in its slot
// which change it is about to make and what it will hold then; after it, it enters that and withdraws the announcement.
// Whoever replaces a usage word first confirms in the slot of its last writer that the change in it was made. So what a
// dead process held can be told exactly: what it had entered, or, if its announced change stands in the usage word or
// is confirmed, what it had announced. tests/model/book.pml is this protocol for a model checker.
#include "ledger/charges.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "ledger/account.hpp"
#include "ledger/line.hpp"
#include "ledger/waiting.hpp"

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
void take_off(Word& word, std::uint64_t bytes, std::uint64_t least) noexcept {
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

[[gnu::always_inline]] inline bool take_turn(Word& change) noexcept {
  std::uint64_t none = kNoChange;
  return change.compare_exchange_strong(none, kPreparing, std::memory_order_acquire, kRelaxed);
}

/// Sees to it that everybody can tell that the change in `usage` was made once that word is replaced.
[[gnu::noinline]] void confirm(const OpenBook& book, std::uint32_t account, std::uint64_t usage) noexcept {
  const std::uint32_t index = last_slot(usage);
  SlotRecord& slot = book.layout->slots[index];
  const std::uint64_t change = slot.change.load(std::memory_order_acquire);
  std::uint64_t number = change_number(change);
  if (!is_announced(change, account) || !made_by(usage, index, number)) {
    // Entered already, or the refund of what a dead process held.
    if (life_of(slot.state.load(std::memory_order_acquire)) != SlotLife::kDead) return;
    number = last_number(slot, account);
    if (!made_by(usage, index, number)) return;
  }
  // The announcement was read after the word: only if the word still stands do they belong together.
  if (book.layout->accounts[account].usage.load(std::memory_order_acquire) == usage)
    raise(slot.parts[account].confirmed, number);
}

enum class Step { kCharge, kForce, kRefund };
/// kNoTurn, kHasTurn: not made at the first attempt, which had to wait for its turn or has it.
enum class Outcome { kMade, kNoTurn, kHasTurn, kOverLimit, kStuck };
struct Changed {
  Outcome outcome;
  std::uint64_t used;
};

/// What an account and this process's part of it become, or that they stay.
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

/// Where a change is made: in an account, and in the part of it that a slot holds.
struct Place {
  AccountRecord& account;
  SlotRecord& slot;
  Part& part;
  std::uint32_t account_index, slot_index;
};

[[gnu::always_inline]] inline Place own_place(const OpenBook& book, std::uint32_t account) noexcept {
  return {book.layout->accounts[account], *book.own, book.own->parts[account], account, book.slot};
}

/// For changes under the lock of the shared part.
Place common_place(const OpenBook& book, std::uint32_t account) noexcept {
  SlotRecord& slot = book.layout->slots[kCommonSlot];
  return {book.layout->accounts[account], slot, slot.parts[account], account, kCommonSlot};
}

/// What may be charged in all: the lower limit, less what the driver holds beside all charges.
[[gnu::always_inline]] inline std::uint64_t room(const OpenBook& book, const Place& place) noexcept {
  const BookHeader& header = book.layout->header;
  const std::uint64_t limit = std::min(place.account.limit.load(std::memory_order_acquire),
                                       header.own_limit[place.account_index].load(kRelaxed));
  const std::uint64_t beside = unrequested_bytes(header.unrequested[place.account_index].load(kRelaxed));
  return limit - std::min(limit, beside);
}

/// One attempt at a change, by the thread that has the turn. `seen`: the usage word that it replaces; if another stands
/// there, that one afterwards.
[[gnu::always_inline]] inline bool attempt(const Place& place, std::uint64_t& seen, Amounts after) noexcept {
  const std::uint64_t number = place.part.changes.load(kRelaxed) + 1;
  place.slot.change_held.store(after.held, kRelaxed);
  place.slot.change.store(announced(number, place.account_index), std::memory_order_release);
  if (!place.account.usage.compare_exchange_strong(seen, usage_word(after.used, place.slot_index, number)))
    return false;
  place.part.held.store(after.held, kRelaxed);
  place.part.changes.store(number, kRelaxed);
  place.slot.change.store(kNoChange, std::memory_order_release);
  return true;
}

/// The first attempt at a change, nearly always the only one. It calls nothing, and what it can read before its turn it
/// reads before: a register that is saved on the way to a locked instruction, or a load behind one, costs as much as
/// the instruction itself. A usage word that was read too early has changed by then, and is not replaced.
[[gnu::always_inline]] inline Changed first_attempt(const OpenBook& book, const Place& place, Step step,
                                                    std::uint64_t size) noexcept {
  std::uint64_t seen = place.account.usage.load(std::memory_order_seq_cst);
  const std::uint64_t used = used_bytes(seen), limit = room(book, place);
  if (!take_turn(place.slot.change)) [[unlikely]]
    return {Outcome::kNoTurn, 0};
  const Amounts after = amounts_after(step, size, used, place.part.held.load(kRelaxed), limit);
  const bool made = after.allowed && last_slot(seen) == place.slot_index && attempt(place, seen, after);
  return {made ? Outcome::kMade : Outcome::kHasTurn, after.used};
}

/// Makes a change after the first attempt at it, which has the turn or has not.
[[gnu::noinline]] Changed change_after(const OpenBook& book, Outcome first, const Place& place, Step step,
                                       std::uint64_t size) noexcept {
  if (first == Outcome::kNoTurn && !wait_for_turn(place.slot.change)) return {Outcome::kStuck, 0};
  std::uint64_t seen = place.account.usage.load(std::memory_order_seq_cst);
  for (;;) {
    const Amounts after =
        amounts_after(step, size, used_bytes(seen), place.part.held.load(kRelaxed), room(book, place));
    if (!after.allowed) {
      place.slot.change.store(kNoChange, std::memory_order_release);
      return {Outcome::kOverLimit, used_bytes(seen)};
    }
    if (last_slot(seen) != place.slot_index) confirm(book, place.account_index, seen);
    if (attempt(place, seen, after)) return {Outcome::kMade, after.used};
  }
}

Changed change(const OpenBook& book, const Place& place, Step step, std::uint64_t size) noexcept {
  const Changed first = first_attempt(book, place, step, size);
  return first.outcome == Outcome::kMade ? first : change_after(book, first.outcome, place, step, size);
}

Word& part_of(const OpenBook& book, std::uint32_t account, Kind kind) noexcept {
  Part& part = book.own->parts[account];
  return kind == Kind::kContext ? part.context : kind == Kind::kPool ? part.pooled : part.managed;
}

[[gnu::noinline]] Charged note_charge(const OpenBook& book, std::uint32_t account, Bytes size, Kind kind,
                                      Bytes* raised_from, std::uint64_t used) noexcept {
  Word& peak = book.layout->accounts[account].peak;
  // What ended processes held is no part of a peak.
  if (used > peak.load(kRelaxed)) used -= std::min(used, refund_ended(book, account).count());
  const std::uint64_t before = raise(peak, used);
  if (before < used && raised_from != nullptr) *raised_from = Bytes{before};
  if (kind != Kind::kHeap) part_of(book, account, kind).fetch_add(size.count(), kRelaxed);
  return Charged::kGranted;
}

[[gnu::noinline]] Charged charge_after(const OpenBook& book, Outcome first, std::uint32_t account, Bytes size,
                                       Kind kind, Bytes* raised_from) noexcept {
  const Changed changed = change_after(book, first, own_place(book, account), Step::kCharge, size.count());
  if (changed.outcome == Outcome::kMade) return note_charge(book, account, size, kind, raised_from, changed.used);
  return changed.outcome == Outcome::kOverLimit ? Charged::kOverLimit : Charged::kBroken;
}

/// A charge of an account for whose memory threads wait.
[[gnu::noinline]] Charged charge_in_turn(const OpenBook& book, std::uint32_t account, Bytes size, Kind kind,
                                         Bytes* raised_from) noexcept {
  if (Line(book, account).others_come_first()) return Charged::kBehind;
  return charge_after(book, Outcome::kNoTurn, account, size, kind, raised_from);
}

[[gnu::noinline]] void refund_after(const OpenBook& book, Outcome first, std::uint32_t account, Bytes size,
                                    Kind kind) noexcept {
  if (first != Outcome::kMade)
    first = change_after(book, first, own_place(book, account), Step::kRefund, size.count()).outcome;
  if (first != Outcome::kMade) return;
  if (kind != Kind::kHeap) take_off(part_of(book, account, kind), size.count(), 0);
  Waiting(book).wake();
}

}  // namespace

Charged Account::charge_in(const OpenBook& book, std::uint32_t index, Bytes size, Kind kind,
                           Bytes* raised_from) noexcept {
  if (index >= book.account_count) return Charged::kNoAccount;
  if (book.own == nullptr) return Charged::kBroken;
  if (book.layout->line.newest[index].load(kRelaxed) != 0) [[unlikely]]
    return charge_in_turn(book, index, size, kind, raised_from);
  const Changed first = first_attempt(book, own_place(book, index), Step::kCharge, size.count());
  if (first.outcome != Outcome::kMade) [[unlikely]]
    return charge_after(book, first.outcome, index, size, kind, raised_from);
  if (kind != Kind::kHeap || first.used > book.layout->accounts[index].peak.load(kRelaxed)) [[unlikely]]
    return note_charge(book, index, size, kind, raised_from, first.used);
  return Charged::kGranted;
}

void Account::charge_unconditionally(Bytes size, Kind kind) const noexcept {
  if (!exists() || book_->own == nullptr) return;
  const Changed changed = change(*book_, own_place(*book_, index_), Step::kForce, size.count());
  if (changed.outcome == Outcome::kMade) (void)note_charge(*book_, index_, size, kind, nullptr, changed.used);
}

void Account::refund_in(const OpenBook& book, std::uint32_t index, Bytes size, Kind kind) noexcept {
  if (index >= book.account_count || book.own == nullptr) return;
  const Changed first = first_attempt(book, own_place(book, index), Step::kRefund, size.count());
  // Whoever began to wait before the change finds the bytes; whoever did later has counted itself by now.
  const bool done = first.outcome == Outcome::kMade && kind == Kind::kHeap &&
                    book.layout->header.waiters.load(std::memory_order_seq_cst) == 0;
  if (!done) [[unlikely]]
    refund_after(book, first.outcome, index, size, kind);
}

// Whoever raised the peak since then did so on top of these bytes.
void Account::undo(Bytes size, Kind kind, Bytes raised_from) const noexcept {
  if (!exists() || book_->own == nullptr) return;
  if (raised_from < kUnlimited) take_off(book_->layout->accounts[index_].peak, size.count(), raised_from.count());
  refund(size, kind);
}

void charge_common(const OpenBook& book, std::uint32_t account, std::uint64_t granules) noexcept {
  if (account < book.account_count && granules > 0)
    change(book, common_place(book, account), Step::kForce, granules * kGranule.count());
}

void refund_common(const OpenBook& book, std::uint32_t account, std::uint64_t granules) noexcept {
  if (account >= book.account_count || granules == 0) return;
  change(book, common_place(book, account), Step::kRefund, granules * kGranule.count());
  Waiting(book).wake();
}

// ------------------------------------------------------------------------------------------- what the dead held

std::uint64_t last_number(const SlotRecord& slot, std::uint32_t account) noexcept {
  const std::uint64_t change = slot.change.load(std::memory_order_acquire);
  const std::uint64_t made = slot.parts[account].changes.load(kRelaxed);
  return std::max(made, is_announced(change, account) ? change_number(change) : 0) + 1;
}

Bytes refund_dead(const OpenBook& book, std::uint32_t index, std::uint32_t account, std::uint64_t state) noexcept {
  SlotRecord& slot = book.layout->slots[index];
  Word& usage = book.layout->accounts[account].usage;
  std::uint64_t seen = usage.load(std::memory_order_acquire);
  for (;;) {
    const std::uint64_t last = last_number(slot, account);
    if (made_by(seen, index, last) || slot.parts[account].confirmed.load(std::memory_order_acquire) >= last) return {};
    const std::uint64_t held = held_in(slot, index, account, seen);
    if (slot.state.load(std::memory_order_acquire) != state || held == 0) return {};
    confirm(book, account, seen);
    const std::uint64_t returned = std::min(held, used_bytes(seen));
    if (usage.compare_exchange_strong(seen, usage_word(used_bytes(seen) - returned, index, last)))
      return Bytes{returned};
  }
}

}  // namespace ration::ledger
