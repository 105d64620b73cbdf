// The processes of a workload: who has a slot, who of them lives, and what becomes of a dead one's.
//
// A process lives as long as the lock on its slot's byte of the book's file is held (base/byte_lock.hpp).
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/byte_lock.hpp"
#include "base/clock.hpp"
#include "ledger/book.hpp"
#include "ledger/descriptor_label.hpp"
#include "ledger/layout.hpp"

namespace ration::ledger {
namespace {

void read_own_command(char (&target)[sizeof(SlotRecord::command)]) noexcept {
  const FileDescriptor file{::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC)};
  const ssize_t length = file ? ::read(file.get(), target, sizeof target - 1) : -1;
  target[length > 0 ? length : 0] = '\0';
  for (ssize_t i = 0; i + 1 < length; ++i) {
    if (target[i] == '\0') target[i] = ' ';
  }
}

}  // namespace

/// The book's file again, with an open file description of its own. None: it is no longer where it was.
FileDescriptor Book::reopen() const noexcept {
  FileDescriptor file{::open(path_, O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_ino != inode_ || status.st_dev != device_) return {};
  return file;
}

/// Readies a free slot for a process. What it counts goes on from its former lives, so that nothing of those is ever
/// taken for a change of this one.
void Book::prepare(std::uint32_t index, const ProcessIdentity& self) noexcept {
  SlotRecord& slot = layout_->slots[index];
  for (std::uint32_t account = 0; account < kMaxAccounts; ++account) {
    std::uint64_t number = last_number(slot, account);
    // The low bits of a number stand in the usage word: those of the next ones must not be there already.
    const std::uint64_t usage = layout_->accounts[account].usage.load(std::memory_order_acquire);
    while (made_by(usage, index, number + 1) || made_by(usage, index, number + 2)) ++number;
    Part& part = slot.parts[account];
    part.changes.store(number, kRelaxed);
    for (Word* amount : {&part.held, &part.context, &part.pooled, &part.managed}) amount->store(0, kRelaxed);
  }
  slot.change.store(kNoChange, kRelaxed);
  slot.waiting.store(0, kRelaxed);
  slot.unmovable.store(0, kRelaxed);
  slot.pid = self.pid;
  slot.user = self.user;
  slot.start_time = self.start_time;
  slot.pid_namespace = self.pid_namespace;
  slot.attached_ns.store(unix_time_ns(), kRelaxed);
  read_own_command(slot.command);
  std::atomic<std::uint32_t>& bound = layout_->header.slot_bound;
  std::uint32_t seen = bound.load(kRelaxed);
  while (seen <= index && !bound.compare_exchange_weak(seen, index + 1)) {
  }
}

bool Book::attach() noexcept {
  if (layout_ == nullptr) return false;
  if (slot_ != kNoSlot) return true;
  const ProcessIdentity self = current_process();  // before the book is open: there may be one descriptor left
  // What a daemon found of processes that have ended since then would be taken for this one's.
  const bool outlived = std::any_of(std::begin(layout_->header.unrequested), std::end(layout_->header.unrequested),
                                    [](const Word& word) { return unrequested_bytes(word.load(kRelaxed)) != 0; });
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (attempt > 0 || outlived) reap();
    const FileDescriptor file = reopen();
    for (std::uint32_t index = 0; file && index < kCommonSlot; ++index) {
      Word& state = layout_->slots[index].state;
      const auto is_free = [&] { return life_of(state.load(std::memory_order_acquire)) == SlotLife::kFree; };
      if (!is_free() || !lock_byte(file.get(), index)) continue;
      if (!is_free()) {  // somebody had it, and ended, between the two
        unlock_byte(file.get(), index);
        continue;
      }
      slot_lock_ = keep_open(file.get());
      if (slot_lock_.get() == nullptr) return false;
      prepare(index, self);
      state.store(state_word(generation_of(state.load(kRelaxed)), SlotLife::kUsed), std::memory_order_release);
      slot_ = index;
      own_ = &layout_->slots[index];
      return true;
    }
  }
  return false;
}

/// Marks that slot as one whose process has ended: whoever reads the book counts it no longer. `state` is what the
/// slot's was when the process was seen to have ended. False: the slot has another process by now, or none.
bool Book::mark_dead(std::uint32_t index, std::uint64_t state) noexcept {
  const std::uint64_t dead = state_word(generation_of(state), SlotLife::kDead);
  return layout_->slots[index].state.compare_exchange_strong(state, dead) || state == dead;
}

/// Refunds what the process of that slot held and frees the slot; `state` as of mark_dead(). Any number of processes
/// may do this at once, and stop or die in the middle.
Bytes Book::bury(std::uint32_t index, std::uint64_t state) noexcept {
  if (!mark_dead(index, state)) return {};
  SlotRecord& slot = layout_->slots[index];
  const std::uint64_t dead = state_word(generation_of(state), SlotLife::kDead);
  Bytes returned;
  for (std::uint32_t account = 0; account < account_count_; ++account) returned += refund_dead(index, account, dead);
  std::uint64_t still = dead;
  slot.state.compare_exchange_strong(still, state_word(generation_of(dead) + 1, SlotLife::kFree));
  // With the last process goes what the driver held for it: the next one begins with its whole limit.
  const std::size_t bound = std::min<std::size_t>(layout_->header.slot_bound.load(kRelaxed), kMaxProcesses);
  const bool is_last = std::none_of(layout_->slots, layout_->slots + bound, [](const SlotRecord& other) {
    return life_of(other.state.load(std::memory_order_acquire)) == SlotLife::kUsed;
  });
  if (is_last)
    for (Word& word : layout_->header.unrequested)
      word.store(unrequested_word(0, times_emptied(word.load(kRelaxed)) + 1), kRelaxed);
  return returned;
}

void Book::detach() noexcept {
  if (own_ == nullptr) return;
  const std::uint32_t index = slot_;
  LabelSearch labels(layout_->shared.control_path);
  const std::uint64_t state = layout_->slots[index].state.load(std::memory_order_acquire);
  const bool shares = has_shares(index), settled = shares && lock_shared();
  if (settled && mark_dead(index, state)) release_shares_of(index, labels);
  slot_ = kNoSlot;
  own_ = nullptr;
  // Where the lock cannot be had now, whoever reaps next finds a slot without a process.
  if (settled || !shares) bury(index, state);
  if (settled) unlock_shared();
  slot_lock_ = Mapping{};
  wake_waiters();
}

void Book::note(Unmovable what) noexcept {
  const auto flag = static_cast<std::uint32_t>(what);
  if (own_ != nullptr && (own_->unmovable.load(kRelaxed) & flag) == 0) own_->unmovable.fetch_or(flag);
}

void Book::forget_slot() noexcept {
  slot_ = kNoSlot;
  own_ = nullptr;
  slot_lock_.release();  // a child has no such mapping
}

std::uint32_t Book::slots_in_use() const noexcept {
  return std::min<std::uint32_t>(layout_->header.slot_bound.load(kRelaxed), kCommonSlot);
}

Bytes Book::reap() noexcept {
  const FileDescriptor file = layout_ == nullptr ? FileDescriptor{} : reopen();
  if (!file) return {};
  Bytes returned;
  const std::uint32_t bound = slots_in_use();
  const auto lives = [&](std::uint32_t index) {
    return life_of(layout_->slots[index].state.load(std::memory_order_acquire)) == SlotLife::kUsed &&
           (index == slot_ || byte_is_locked(file.get(), index));
  };
  LabelSearch labels(layout_->shared.control_path);
  for (std::uint32_t index = 0; index < bound; ++index) {
    const SlotRecord& slot = layout_->slots[index];
    const std::uint64_t state = slot.state.load(std::memory_order_acquire);
    if (life_of(state) == SlotLife::kFree || lives(index)) continue;
    // What it lent stays charged while others hold it: that is settled first, by one process at a time. Where the lock
    // cannot be had now, all that it held stays charged until somebody looks again.
    Bytes kept;
    if (has_shares(index)) {
      if (!lock_shared()) continue;
      if (!lives(index) && mark_dead(index, state)) kept = release_shares_of(index, labels);
      unlock_shared();
    }
    const Bytes refunded = bury(index, state);
    returned += refunded - std::min(refunded, kept);
  }
  forget_dead_waiters();
  if (returned > Bytes{0}) wake_waiters();
  return returned;
}

// A process that dies while it waits stays counted; that costs every refund a system call, and no more.
void Book::forget_dead_waiters() noexcept {
  std::uint32_t counted = layout_->header.waiters.load(std::memory_order_seq_cst), alive = 0;
  const std::uint32_t bound = slots_in_use();
  for (std::uint32_t index = 0; index < bound; ++index) {
    const SlotRecord& slot = layout_->slots[index];
    if (life_of(slot.state.load(std::memory_order_acquire)) == SlotLife::kUsed) alive += slot.waiting.load();
  }
  if (alive < counted) layout_->header.waiters.compare_exchange_strong(counted, alive);
}

}  // namespace ration::ledger
