#include "pool/thread_cache.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "pool/registry.hpp"

namespace ration::pool {
namespace {

/// The caches of one thread. What it keeps goes back when the thread ends.
class OwnCaches {
 public:
  struct Entry {
    std::uint64_t pool = 0;
    Stream stream = 0;
    ThreadCache* cache = nullptr;
  };
  ~OwnCaches() {
    for (const Entry& entry : entries_) {
      with_pool(entry.pool, [&](Pool& pool) { pool.thread_has_ended(*entry.cache); });
    }
  }
  ThreadCache* find(std::uint64_t pool, Stream stream) {
    for (const Entry& entry : entries_) {
      if (entry.pool == pool && entry.stream == stream) return entry.cache;
    }
    return nullptr;
  }
  bool has(const ThreadCache& cache) const {
    return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.cache == &cache; });
  }
  void add(const Entry& entry) { entries_.push_back(entry); }

 private:
  std::vector<Entry> entries_;
};

thread_local OwnCaches own_caches;
// The one used last, apart from the others since it needs no look at whether it was made.
thread_local OwnCaches::Entry last;

}  // namespace

std::uint32_t ThreadCache::capacity(int size_class) noexcept {
  return std::clamp(static_cast<std::uint32_t>(kBytesOfAClass / class_size(size_class)), 2U, kMost);
}

ThreadCache* ThreadCache::of(Pool& pool, Stream stream) {
  if (last.pool == pool.number_ && last.stream == stream) [[likely]]
    return last.cache;
  ThreadCache* cache = own_caches.find(pool.number_, stream);
  if (cache == nullptr) {
    cache = pool.new_cache(stream);
    if (cache == nullptr) return nullptr;
    own_caches.add({pool.number_, stream, cache});
  }
  last = {pool.number_, stream, cache};
  return cache;
}

bool ThreadCache::is_own(const ThreadCache& cache) { return own_caches.has(cache); }

void ThreadCache::count_in_use(std::int64_t bytes) noexcept {
  const std::int64_t now = unpublished_.load(std::memory_order_relaxed) + bytes;
  unpublished_.store(now, std::memory_order_relaxed);
  if (now > highest()) highest_.store(now, std::memory_order_relaxed);
  if (now > kPublishAt || now < -kPublishAt) [[unlikely]]
    publish();
}

void ThreadCache::publish() noexcept {
  const std::int64_t now = unpublished_.load(std::memory_order_relaxed);
  pool_.raise_peak(pool_.bytes_in_use_.load(std::memory_order_relaxed) + highest());
  unpublished_.store(0, std::memory_order_relaxed);
  highest_.store(0, std::memory_order_relaxed);
  pool_.add_in_use(now);
}

Failure ThreadCache::allocate(int size_class, std::uint64_t& address) {
  Bin& bin = bins_[static_cast<std::size_t>(size_class)];
  if (bin.count == 0 || epoch_ != pool_.epoch_.load(std::memory_order_relaxed)) [[unlikely]] {
    if (const Failure failure = refill(size_class); failure != Failure::kNone) return failure;
  }
  const CachedBlock& block = bin.block[--bin.count];
  block.state->store(BlockState::kLive, std::memory_order_relaxed);
  address = block.address;
  const std::uint64_t size = class_size(size_class);
  allocations_.store(allocations_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (size > largest_.load(std::memory_order_relaxed)) largest_.store(size, std::memory_order_relaxed);
  count_in_use(static_cast<std::int64_t>(size));
  return Failure::kNone;
}

Failure ThreadCache::refill(int size_class) {
  const std::lock_guard guard(pool_.lock_);
  if (const Failure failure = pool_.alive(); failure != Failure::kNone) return failure;
  if (const std::uint32_t epoch = pool_.epoch_.load(std::memory_order_relaxed); epoch_ != epoch) {
    empty_locked();
    epoch_ = epoch;
  }
  Bin& bin = bins_[static_cast<std::size_t>(size_class)];
  if (bin.count > 0) return Failure::kNone;
  Failure failure = Failure::kNone;
  bin.count = pool_.refill(size_class, tag_, (capacity(size_class) + 1) / 2, bin.block, failure);
  return failure;
}

void ThreadCache::keep(int size_class, const CachedBlock& block) {
  Bin& bin = bins_[static_cast<std::size_t>(size_class)];
  if (bin.count >= capacity(size_class) || epoch_ != pool_.epoch_.load(std::memory_order_relaxed)) [[unlikely]] {
    const std::lock_guard guard(pool_.lock_);
    if (const std::uint32_t epoch = pool_.epoch_.load(std::memory_order_relaxed); epoch_ != epoch) {
      empty_locked();
      epoch_ = epoch;
    }
    while (bin.count > capacity(size_class) / 2) pool_.put_back(bin.block[--bin.count], tag_);
  }
  bin.block[bin.count++] = block;
  releases_.store(releases_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  count_in_use(-static_cast<std::int64_t>(class_size(size_class)));
}

void ThreadCache::empty_locked() {
  for (Bin& bin : bins_) {
    while (bin.count > 0) pool_.put_back(bin.block[--bin.count], tag_);
  }
}

}  // namespace ration::pool
