// The bytes that one thread took from a pool and gave back since its last report to the pool. The thread writes these
// counts, and the pool reads them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace ration::pool {

class ThreadCounts {
 public:
  /// Counts a block handed out. Returns true if so much has changed that the pool must get a report.
  bool took(std::int64_t bytes) noexcept {
    allocations_.store(allocations() + 1, std::memory_order_relaxed);
    const std::int64_t now = unpublished() + bytes;
    unpublished_.store(now, std::memory_order_relaxed);
    if (now <= highest()) return false;
    highest_.store(now, std::memory_order_relaxed);
    return now > kToldAt;
  }
  /// Counts a block that comes back. Returns true if so much has changed that the pool must get a report.
  bool gave(std::int64_t bytes) noexcept {
    const std::int64_t now = unpublished() - bytes;
    unpublished_.store(now, std::memory_order_relaxed);
    return now < -kToldAt;
  }
  /// Notes the size of a request, if it is the largest.
  void asked_for(std::uint64_t bytes) noexcept {
    largest_.store(std::max(bytes, largest()), std::memory_order_relaxed);
  }
  /// Sets the counts of the current report to zero, after the pool has read them.
  void reported() noexcept {
    unpublished_.store(0, std::memory_order_relaxed);
    highest_.store(0, std::memory_order_relaxed);
  }
  void forget_highest() noexcept { highest_.store(unpublished(), std::memory_order_relaxed); }

  /// Returns the bytes taken less the bytes given back since the last report.
  [[nodiscard]] std::int64_t unpublished() const noexcept { return unpublished_.load(std::memory_order_relaxed); }
  /// Returns the highest value of unpublished() since the last report.
  [[nodiscard]] std::int64_t highest() const noexcept { return highest_.load(std::memory_order_relaxed); }
  /// Returns the allocations since the cache was made.
  [[nodiscard]] std::uint64_t allocations() const noexcept { return allocations_.load(std::memory_order_relaxed); }
  /// Returns the size of the largest request since the cache was made.
  [[nodiscard]] std::uint64_t largest() const noexcept { return largest_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::int64_t kToldAt = 512 << 10;

  std::atomic<std::int64_t> unpublished_{0}, highest_{0};
  std::atomic<std::uint64_t> allocations_{0}, largest_{0};
};

}  // namespace ration::pool
