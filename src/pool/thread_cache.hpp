// What one thread keeps of one pool's small blocks, in one stream's order. Only its thread touches it; the pool reads its
// counters.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "pool/pool.hpp"
#include "pool/small_blocks.hpp"

namespace ration::pool {

class ThreadCache {
 public:
  explicit ThreadCache(Pool& pool) : pool_(pool) {}

  /// The calling thread's, made if need be. Null: the pool is closed, or another process's.
  static ThreadCache* of(Pool& pool, Stream stream);

  /// Whether the calling thread made it.
  static bool is_own(const ThreadCache& cache);

  Failure allocate(int size_class, std::uint64_t& address);
  /// `block` was kLive.
  void keep(int size_class, const CachedBlock& block);
  [[nodiscard]] std::int64_t unpublished() const noexcept { return unpublished_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t allocations() const noexcept { return allocations_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t releases() const noexcept { return releases_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t largest() const noexcept { return largest_.load(std::memory_order_relaxed); }
  /// The most that unpublished() was since the last publish().
  [[nodiscard]] std::int64_t highest() const noexcept { return highest_.load(std::memory_order_relaxed); }

 private:
  friend class Pool;
  static constexpr std::uint32_t kMost = 32;
  static constexpr std::uint64_t kBytesOfAClass = 256 << 10;
  // In use counts are handed on to the pool when they have moved by this much.
  static constexpr std::int64_t kPublishAt = 512 << 10;

  struct Bin {
    std::uint32_t count = 0;
    CachedBlock block[kMost];
  };
  static std::uint32_t capacity(int size_class) noexcept;
  Failure refill(int size_class);
  void count_in_use(std::int64_t bytes) noexcept;
  void publish() noexcept;
  void empty_locked();
  void forget_highest() noexcept { highest_.store(unpublished(), std::memory_order_relaxed); }

  Pool& pool_;
  Stream stream_ = 0;
  StreamTag tag_ = 0;
  std::uint32_t epoch_ = 0;
  std::array<Bin, kClasses> bins_;
  std::atomic<std::int64_t> unpublished_{0};  // bytes taken less bytes given since the last publish()
  std::atomic<std::int64_t> highest_{0};      // the most that was since then
  std::atomic<std::uint64_t> allocations_{0}, releases_{0}, largest_{0};
  bool idle_ = false;  // its thread has ended: another may have it. Under the pool's lock.
};

}  // namespace ration::pool
