// The processes of a workload: which have a slot, which of them live, and how a dead one's slot is cleared.
//
// A process lives as long as the lock on its slot's byte of the book's file is held (base/byte_lock.hpp).
#include "book/processes.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/byte_lock.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "book/charges.hpp"
#include "book/descriptor_label.hpp"
#include "book/layout.hpp"
#include "book/shared_slots.hpp"
#include "book/waiting.hpp"

namespace ration::book {
namespace {

void read_own_command(char (&target)[sizeof(SlotRecord::command)]) noexcept {
  const FileDescriptor file{::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC)};
  const ssize_t length = file ? ::read(file.get(), target, sizeof target - 1) : -1;
  target[length > 0 ? length : 0] = '\0';
  for (ssize_t i = 0; i + 1 < length; ++i) {
    if (target[i] == '\0') target[i] = ' ';
  }
}

/// Opens the book's file again, with an open file description of its own. Returns none if the file is no longer at its
/// path.
FileDescriptor reopen(const OpenBook& book) noexcept {
  FileDescriptor file{::open(book.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_ino != book.inode || status.st_dev != book.device)
    return {};
  return file;
}

/// Prepares a free slot for a process. The slot's counters continue from its former lives, so that a change of a former
/// life is never taken for one of this life.
void prepare(const OpenBook& book, std::uint32_t index, const ProcessIdentity& self) noexcept {
  SlotRecord& slot = book.layout->slots[index];
  book.each_account([&](std::uint32_t account) {
    std::uint64_t number = last_number(slot, account);
    // The usage word contains the low bits of a change's number, so the low bits of the next two numbers must differ
    // from those in the word.
    const std::uint64_t usage = usage_of(*book.layout, account).load(std::memory_order_acquire);
    while (made_by(usage, index, number + 1) || made_by(usage, index, number + 2)) ++number;
    Holdings& holdings = holdings_of(slot, account);
    holdings.changes.store(number, kRelaxed);
    holdings.held.store(0, kRelaxed);
  });
  for (Part& part : slot.parts)
    for (Word* amount : {&part.context, &part.pooled, &part.managed}) amount->store(0, kRelaxed);
  slot.change.store(kNoChange, kRelaxed);
  slot.waiting.store(0, kRelaxed);
  slot.unmovable.store(0, kRelaxed);
  slot.pid = self.pid;
  slot.user = self.user;
  slot.start_time = self.start_time;
  slot.pid_namespace = self.pid_namespace;
  slot.attached_ns.store(unix_time_ns(), kRelaxed);
  read_own_command(slot.command);
  std::atomic<std::uint32_t>& bound = book.layout->header.slot_bound;
  std::uint32_t seen = bound.load(kRelaxed);
  while (seen <= index && !bound.compare_exchange_weak(seen, index + 1)) {
  }
}

/// Marks that slot as dead, so that readers of the book no longer count its process. `state` is the slot's value when
/// the process was seen to have ended. Returns false if the slot has another process by now, or none.
bool mark_dead(const OpenBook& book, std::uint32_t index, std::uint64_t state) noexcept {
  const std::uint64_t dead = state_word(generation_of(state), SlotLife::kDead);
  return book.layout->slots[index].state.compare_exchange_strong(state, dead) || state == dead;
}

/// Refunds the holdings of the process of that slot and frees the slot; `state` as for mark_dead(). Any number of
/// processes may do this at once, and stop or die in the middle. Adds the refunded bytes to `returned`.
void refund_and_free(const OpenBook& book, std::uint32_t index, std::uint64_t state, ByAccount& returned) noexcept {
  SlotRecord& slot = book.layout->slots[index];
  const std::int32_t pid = slot.pid;  // read first: once the slot is free, it may get another process
  if (!mark_dead(book, index, state)) return;
  if (book.death_listener != nullptr) book.death_listener(pid);
  const std::uint64_t dead = state_word(generation_of(state), SlotLife::kDead);
  book.each_account([&](std::uint32_t account) { returned[account] += refund_dead(book, index, account, dead); });
  std::uint64_t still = dead;
  slot.state.compare_exchange_strong(still, state_word(generation_of(dead) + 1, SlotLife::kFree));
  // When the last process ends, the driver frees all memory that it held for the workload beyond the charges, so the
  // next process begins with the whole limit.
  const std::size_t bound = std::min<std::size_t>(book.layout->header.slot_bound.load(kRelaxed), kMaxProcesses);
  const bool is_last = std::none_of(book.layout->slots, book.layout->slots + bound, [](const SlotRecord& other) {
    return life_of(other.state.load(std::memory_order_acquire)) == SlotLife::kUsed;
  });
  if (is_last)
    for (Word& word : book.layout->header.unrequested)
      word.store(unrequested_word(0, times_emptied(word.load(kRelaxed)) + 1), kRelaxed);
}

/// Clears the slots of ended processes. Returns the bytes refunded on each account.
ByAccount reap_all(const OpenBook& book) noexcept {
  ByAccount returned{};
  const FileDescriptor file = book.layout == nullptr ? FileDescriptor{} : reopen(book);
  if (!file) return returned;
  const std::uint32_t bound = slots_in_use(*book.layout);
  const auto lives = [&](std::uint32_t index) {
    return life_of(book.layout->slots[index].state.load(std::memory_order_acquire)) == SlotLife::kUsed &&
           (index == book.slot || byte_is_locked(file.get(), index));
  };
  LabelSearch labels(book.layout->shared.control_path);
  ByAccount kept{};
  for (std::uint32_t index = 0; index < bound; ++index) {
    const SlotRecord& slot = book.layout->slots[index];
    const std::uint64_t state = slot.state.load(std::memory_order_acquire);
    if (life_of(state) == SlotLife::kFree || lives(index)) continue;
    // Memory that the process lent stays charged while others hold it, so that memory is settled first, under the lock.
    // If the lock is not available, all holdings of the process stay charged until the next reaping.
    if (has_shares(book, index)) {
      const SharedLock held(book);
      if (!held) continue;
      if (!lives(index) && mark_dead(book, index, state)) release_shares_of(book, index, labels, kept);
    }
    refund_and_free(book, index, state, returned);
  }
  book.each_account([&](std::uint32_t account) { returned[account] -= std::min(returned[account], kept[account]); });
  return returned;
}

/// Clears the slots of ended processes and wakes the threads that wait for memory.
ByAccount reap_and_wake(const OpenBook& book) noexcept {
  const ByAccount returned = reap_all(book);
  if (book.layout == nullptr) return returned;
  Waiting(book).forget_dead();
  if (returned.sum() > Bytes{0}) Waiting(book).wake();
  return returned;
}

/// Returns true if the account may contain bytes of an ended process: some memory is shared, or bytes belong neither to
/// this process nor to the common slot.
bool others_are_charged(const OpenBook& book, std::uint32_t account) noexcept {
  const BookLayout& layout = *book.layout;
  if (layout.shared.bound.load(kRelaxed) != 0) return true;
  const std::uint64_t usage = usage_of(*book.layout, account).load(std::memory_order_acquire);
  const std::uint64_t own = book.own == nullptr ? 0 : held_in(*book.own, book.slot, account, usage);
  return used_bytes(usage) != own + held_in(layout.slots[kCommonSlot], kCommonSlot, account, usage);
}

}  // namespace

Bytes refund_ended(const OpenBook& book, std::uint32_t account) noexcept {
  return others_are_charged(book, account) ? reap_and_wake(book)[account] : Bytes{0};
}

bool Processes::attach() const noexcept {
  if (book_->layout == nullptr) return false;
  if (book_->slot != kNoSlot) return true;
  const ProcessIdentity self = current_process();  // read first, because only one descriptor may be left
  // Reaps first, because otherwise the holdings of ended processes, and the memory that the daemon found for them,
  // would be attributed to this process.
  reap();
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (attempt > 0) reap();
    FileDescriptor file = reopen(*book_);
    for (std::uint32_t index = 0; file && index < kCommonSlot; ++index) {
      Word& state = book_->layout->slots[index].state;
      const auto is_free = [&] { return life_of(state.load(std::memory_order_acquire)) == SlotLife::kFree; };
      if (!is_free() || !lock_byte(file.get(), index)) continue;
      if (!is_free()) {  // another process took the slot and ended in between
        unlock_byte(file.get(), index);
        continue;
      }
      book_->slot_lock = keep_locked(std::move(file), index, reopen(*book_));
      if (!book_->slot_lock) return false;
      prepare(*book_, index, self);
      state.store(state_word(generation_of(state.load(kRelaxed)), SlotLife::kUsed), std::memory_order_release);
      book_->slot = index;
      book_->set_own(&book_->layout->slots[index]);
      return true;
    }
  }
  return false;
}

void Processes::detach() const noexcept {
  if (book_->own == nullptr) return;
  const std::uint32_t index = book_->slot;
  LabelSearch labels(book_->layout->shared.control_path);
  const std::uint64_t state = book_->layout->slots[index].state.load(std::memory_order_acquire);
  {
    ByAccount kept{}, returned{};
    const bool shares = has_shares(*book_, index);
    const SharedLock held = shares ? SharedLock(*book_) : SharedLock();
    if (held && mark_dead(*book_, index, state)) release_shares_of(*book_, index, labels, kept);
    book_->slot = kNoSlot;
    book_->set_own(nullptr);
    // If the lock is not available, the next reaping clears the slot.
    if (held || !shares) refund_and_free(*book_, index, state, returned);
  }
  book_->slot_lock = LockKeeper{};
  Waiting(*book_).wake();
}

Processes::Holdings Processes::own_holdings(std::uint32_t account) const noexcept {
  if (book_->own == nullptr || !book_->has(account)) return {};
  const SlotRecord& slot = *book_->own;
  const Bytes all{holdings_of(slot, account).held.load(kRelaxed)};
  if (account == kHostAccount) return {all, Bytes{0}, Bytes{0}, Bytes{0}};
  const Part& part = slot.parts[account];
  return {all, Bytes{part.context.load(kRelaxed)}, Bytes{part.pooled.load(kRelaxed)},
          Bytes{part.managed.load(kRelaxed)}};
}

void Processes::note(Unmovable what) const noexcept {
  const auto flag = static_cast<std::uint32_t>(what);
  if (book_->own != nullptr && (book_->own->unmovable.load(kRelaxed) & flag) == 0) book_->own->unmovable.fetch_or(flag);
}

void Processes::forget_slot() const noexcept {
  book_->slot = kNoSlot;
  book_->set_own(nullptr);
  book_->slot_lock.forget();
}

Bytes Processes::reap() const noexcept { return reap_and_wake(*book_).sum(); }

bool has_daemon(const OpenBook& book) noexcept {
  const FileDescriptor file = reopen(book);
  return file && byte_is_locked(file.get(), kDaemonByte);
}

}  // namespace ration::book
