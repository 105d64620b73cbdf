// The figures that a pool reports, and the driver calls that its latest requests cost. Used by Pool, under its lock.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ration::pool {

/// The totals of a pool since it was made. Peaks are exact, except for what thread caches have not reported yet.
struct Totals {
  std::uint64_t allocations = 0, largest = 0, live = 0;  // blocks above kMaxSmallBlock; thread caches count the rest
  std::int64_t bytes_in_use = 0, peak_bytes_in_use = 0;
  std::uint64_t units_in_use = 0, peak_units_in_use = 0;
  std::uint32_t peak_taken = 0;  // granules

  /// Counts a block above kMaxSmallBlock.
  void took(std::uint64_t bytes) noexcept {
    ++allocations;
    ++live;
    largest = std::max(largest, bytes);
    count_in_use(static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(bytes));
  }
  void gave(std::uint64_t bytes) noexcept {
    --live;
    count_in_use(0, -static_cast<std::int64_t>(bytes));
  }
  /// Changes the use by `change` bytes. Meanwhile the use was up to `highest` bytes higher than before.
  void count_in_use(std::int64_t highest, std::int64_t change) noexcept {
    peak_bytes_in_use = std::max(peak_bytes_in_use, bytes_in_use + highest);
    bytes_in_use += change;
  }
};

/// The recent driver calls that moved granules, per request. The count is halved every kWindow requests.
class CallRate {
 public:
  void count_request() noexcept {
    if (++requests_ % kWindow == 0) recent_calls_ /= 2;
  }
  void count_calls(std::uint64_t calls) noexcept { recent_calls_ += calls; }
  [[nodiscard]] bool is_above(double calls_per_request) const noexcept {
    return static_cast<double>(recent_calls_) > calls_per_request * 2 * kWindow;
  }

 private:
  static constexpr std::uint32_t kWindow = 256;
  std::uint64_t recent_calls_ = 0;
  std::uint32_t requests_ = 0;
};

}  // namespace ration::pool
