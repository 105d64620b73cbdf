#include "book/waiting.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "book/layout.hpp"

namespace ration::book {

void Waiting::begin(std::uint32_t account, Bytes wanted) const noexcept {
  if (book_->own == nullptr) return;
  if (account < book_->account_count) {
    Word& largest = book_->layout->header.wanted[account];
    std::uint64_t seen = largest.load(kRelaxed);
    while (seen < wanted.count() && !largest.compare_exchange_weak(seen, wanted.count())) {
    }
  }
  book_->own->waiting.fetch_add(1);
  book_->layout->header.waiters.fetch_add(1);
}

void Waiting::end() const noexcept {
  if (book_->own == nullptr) return;
  std::atomic<std::uint32_t>& waiters = book_->layout->header.waiters;
  std::uint32_t counted = waiters.load();
  while (counted > 0 && !waiters.compare_exchange_weak(counted, counted - 1)) {
  }
  book_->own->waiting.fetch_sub(1);
  if (counted <= 1) {
    for (Word& wanted : book_->layout->header.wanted) wanted.store(0, kRelaxed);
  }
}

bool Waiting::others_come_first(std::uint32_t account) const noexcept {
  return book_->has(account) && Line(*book_, account).others_come_first();
}

void Waiting::count_granted() const noexcept { book_->layout->header.granted_waits.fetch_add(1); }

void Waiting::wait_for_change(std::uint32_t seen, std::uint64_t timeout_ns) const noexcept {
  BookHeader& header = book_->layout->header;
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000U),
                         static_cast<long>(timeout_ns % 1'000'000'000U)};
  ::syscall(SYS_futex, &header.generation, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

std::uint32_t Waiting::generation() const noexcept {
  return book_->layout->header.generation.load(std::memory_order_seq_cst);
}

bool Waiting::has_waiters() const noexcept { return book_->layout->header.waiters.load(kRelaxed) > 0; }

void Waiting::wake() const noexcept {
  BookHeader& header = book_->layout->header;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (header.waiters.load(kRelaxed) == 0) [[likely]]
    return;
  header.generation.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &header.generation, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
}

void Waiting::forget_dead() const noexcept {
  const BookLayout& layout = *book_->layout;
  std::uint32_t counted = layout.header.waiters.load(std::memory_order_seq_cst), alive = 0;
  const std::uint32_t bound = slots_in_use(layout);
  for (std::uint32_t index = 0; index < bound; ++index) {
    const SlotRecord& slot = layout.slots[index];
    if (life_of(slot.state.load(std::memory_order_acquire)) == SlotLife::kUsed) alive += slot.waiting.load();
  }
  if (alive < counted) book_->layout->header.waiters.compare_exchange_strong(counted, alive);
}

}  // namespace ration::book
