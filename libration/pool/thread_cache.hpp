// A cache of small blocks of one pool, which one thread keeps for itself in one stream's order. Until that thread has
// ended, other threads only read the cache's counts and mark the cache as stale. Nearly every small request is served
// in this header.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "pool/allocator.hpp"
#include "pool/small_blocks.hpp"
#include "pool/thread_counts.hpp"

namespace ration::pool {

class Pool;

class ThreadCache {
 public:
  explicit ThreadCache(Pool& pool) : pool_(pool) {}

  /// Returns the calling thread's cache, and makes it if need be.
  static ThreadCache* of(Pool& pool, std::uint64_t pool_number, Stream stream) {
    if (last_.pool == pool_number && last_.stream == stream) [[likely]]
      return last_.cache;
    return find_or_make(pool, pool_number, stream);
  }

  Failure allocate(int size_class, std::uint64_t& address) {
    Bin& bin = bins_[static_cast<std::size_t>(size_class)];
    if (bin.count == 0 || is_stale()) [[unlikely]] {
      if (const Failure failure = refill(size_class); failure != Failure::kNone) return failure;
    }
    const CachedBlock& block = bin.block[--bin.count];
    block.state->store(BlockState::kLive, std::memory_order_relaxed);
    address = block.address;
    if (counts_.took(class_size(size_class))) [[unlikely]]
      publish_now();
    return Failure::kNone;
  }

  /// Keeps `block`, which must be kLive and becomes kCached.
  Failure keep(int size_class, const CachedBlock& block) {
    Bin& bin = bins_[static_cast<std::size_t>(size_class)];
    if (bin.count >= kCapacity[static_cast<std::size_t>(size_class)] || is_stale()) [[unlikely]]
      return keep_or_give_back(size_class, block);
    block.state->store(BlockState::kCached, std::memory_order_relaxed);
    bin.block[bin.count++] = block;
    if (counts_.gave(class_size(size_class))) [[unlikely]]
      publish_now();
    return Failure::kNone;
  }

  /// Makes the thread empty the cache before it hands out anything again. May be called by any thread.
  void make_stale() noexcept { stale_.store(true, std::memory_order_relaxed); }

  // These functions require the pool's lock.
  void start(StreamTag tag);
  /// Gives all blocks back to their slabs. Returns false if there were none.
  bool empty();
  /// Passes the counts to the pool. Called by the cache's own thread, or after that thread has ended.
  void publish();
  /// Returns true if the cache belongs to the calling thread.
  [[nodiscard]] static bool is_own(const ThreadCache& cache);
  void set_idle(bool idle) noexcept { idle_ = idle; }
  [[nodiscard]] bool is_idle() const noexcept { return idle_; }

  [[nodiscard]] ThreadCounts& counts() noexcept { return counts_; }

 private:
  static constexpr std::uint32_t kMaxBlocks = 32;
  static constexpr std::uint32_t kBytesOfAClass = 256 << 10;
  static constexpr std::array<std::uint8_t, kClasses> kCapacity = [] {
    std::array<std::uint8_t, kClasses> result{};
    for (std::size_t index = 0; index < kClasses; ++index)
      result[index] = static_cast<std::uint8_t>(std::clamp(kBytesOfAClass / kClassTable.size[index], 2U, kMaxBlocks));
    return result;
  }();

  struct Bin {
    std::uint32_t count = 0;
    CachedBlock block[kMaxBlocks];
  };
  struct Last {
    std::uint64_t pool;
    Stream stream;
    ThreadCache* cache;
  };
  // The cache that the calling thread used last. It has no destructor, so that reading it costs nothing.
  static thread_local constinit Last last_ [[gnu::tls_model("initial-exec")]];

  static ThreadCache* find_or_make(Pool& pool, std::uint64_t pool_number, Stream stream);
  Failure refill(int size_class);
  Failure keep_or_give_back(int size_class, const CachedBlock& block);
  void publish_now();
  void catch_up();
  [[nodiscard]] bool is_stale() const noexcept { return stale_.load(std::memory_order_relaxed); }

  Pool& pool_;
  std::atomic<bool> stale_{true};
  StreamTag tag_ = 0;
  bool idle_ = false;  // true once the cache's thread has ended; another thread may then take the cache
  ThreadCounts counts_;
  std::array<Bin, kClasses> bins_;
};

}  // namespace ration::pool
