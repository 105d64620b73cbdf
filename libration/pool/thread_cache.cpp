#include "pool/thread_cache.hpp"

#include <mutex>
#include <vector>

#include "pool/pool.hpp"
#include "pool/registry.hpp"

namespace ration::pool {
namespace {

/// The caches of one thread. When the thread ends, its pools may take the blocks back.
class OwnCaches {
 public:
  ~OwnCaches() {
    for (const Entry& entry : entries_) {
      with_pool(entry.pool, [&](Pool& pool) { pool.thread_has_ended(*entry.cache); });
    }
  }
  [[nodiscard]] ThreadCache* find(std::uint64_t pool, Stream stream) const {
    for (const Entry& entry : entries_) {
      if (entry.pool == pool && entry.stream == stream) return entry.cache;
    }
    return nullptr;
  }
  [[nodiscard]] bool has(const ThreadCache& cache) const {
    return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.cache == &cache; });
  }
  void add(std::uint64_t pool, Stream stream, ThreadCache* cache) { entries_.push_back({pool, stream, cache}); }

 private:
  struct Entry {
    std::uint64_t pool;
    Stream stream;
    ThreadCache* cache;
  };
  std::vector<Entry> entries_;
};

thread_local OwnCaches own_caches;

}  // namespace

thread_local constinit ThreadCache::Last ThreadCache::last_{0, 0, nullptr};

ThreadCache* ThreadCache::find_or_make(Pool& pool, std::uint64_t pool_number, Stream stream) {
  ThreadCache* cache = own_caches.find(pool_number, stream);
  if (cache == nullptr) {
    cache = pool.new_cache(stream);
    own_caches.add(pool_number, stream, cache);
  }
  last_ = {pool_number, stream, cache};
  return cache;
}

bool ThreadCache::is_own(const ThreadCache& cache) { return own_caches.has(cache); }

void ThreadCache::start(StreamTag tag) {
  tag_ = tag;
  make_stale();
  idle_ = false;
}

void ThreadCache::catch_up() {
  if (!is_stale()) return;
  (void)empty();
  stale_.store(false, std::memory_order_relaxed);
}

// Refills the cache from the slabs. If the pool denies every request, the cache stays stale.
Failure ThreadCache::refill(int size_class) {
  const std::lock_guard guard(pool_.lock_);
  if (const Failure failure = pool_.failing(); failure != Failure::kNone) return failure;
  catch_up();
  counts_.asked_for(class_size(size_class));
  Bin& bin = bins_[static_cast<std::size_t>(size_class)];
  Failure failure = Failure::kNone;
  const std::uint32_t wanted = (kCapacity[static_cast<std::size_t>(size_class)] + 1U) / 2;
  bin.count = pool_.refill(size_class, tag_, wanted, bin.block, failure);
  return failure;
}

// Keeps the block or gives it back. While use exceeds a lowered limit, the cache keeps nothing and stays stale, so that
// every block takes this path.
Failure ThreadCache::keep_or_give_back(int size_class, const CachedBlock& block) {
  const std::lock_guard guard(pool_.lock_);
  if (pool_.is_forked()) return Failure::kForked;
  catch_up();
  (void)counts_.gave(class_size(size_class));
  if (pool_.is_over_limit()) {
    make_stale();
    publish();
    pool_.give_back_over_limit(block, tag_);
    return Failure::kNone;
  }
  Bin& bin = bins_[static_cast<std::size_t>(size_class)];
  while (bin.count > kCapacity[static_cast<std::size_t>(size_class)] / 2U) pool_.put_back(bin.block[--bin.count], tag_);
  block.state->store(BlockState::kCached, std::memory_order_relaxed);
  bin.block[bin.count++] = block;
  return Failure::kNone;
}

bool ThreadCache::empty() {
  bool any = false;
  for (Bin& bin : bins_) {
    any = any || bin.count > 0;
    while (bin.count > 0) pool_.put_back(bin.block[--bin.count], tag_);
  }
  return any;
}

void ThreadCache::publish_now() {
  const std::lock_guard guard(pool_.lock_);
  publish();
}

void ThreadCache::publish() {
  if (counts_.unpublished() == 0 && counts_.highest() == 0) return;
  pool_.totals_.count_in_use(counts_.highest(), counts_.unpublished());
  counts_.reported();
}

}  // namespace ration::pool
