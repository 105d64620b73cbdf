// A type for sizes of memory, so that a count of bytes is never mistaken for a count of anything else. Used everywhere.
// Promises: trivially copyable, no hidden conversion from plain numbers, 64 bits everywhere.
#pragma once

#include <compare>
#include <cstdint>

namespace ration {

/// A number of bytes. Arithmetic saturates at neither end, so callers compare before they subtract.
class Bytes {
 public:
  constexpr Bytes() noexcept = default;
  constexpr explicit Bytes(std::uint64_t count) noexcept : count_(count) {}

  [[nodiscard]] constexpr std::uint64_t count() const noexcept { return count_; }

  constexpr auto operator<=>(const Bytes&) const noexcept = default;
  constexpr Bytes& operator+=(Bytes other) noexcept {
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) noexcept {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes left, Bytes right) noexcept { return Bytes{left.count_ + right.count_}; }
  friend constexpr Bytes operator-(Bytes left, Bytes right) noexcept { return Bytes{left.count_ - right.count_}; }
  friend constexpr Bytes operator*(Bytes left, std::uint64_t times) noexcept { return Bytes{left.count_ * times}; }

 private:
  std::uint64_t count_ = 0;
};

static_assert(sizeof(Bytes) == 8);

/// The size that means no limit: larger than any device, so that adding a device's size does not overflow.
inline constexpr Bytes kUnlimited{std::uint64_t{1} << 62};

/// The physical granule of every NVIDIA device since Pascal (cuMemGetAllocationGranularity, minimum): 2 MiB.
inline constexpr Bytes kGranule{std::uint64_t{2} << 20};

/// Rounds `size` up to a multiple of `step` (a power of two); saturates at the largest multiple.
[[nodiscard]] constexpr Bytes round_up(Bytes size, Bytes step) noexcept {
  const std::uint64_t mask = step.count() - 1;
  return size.count() > ~mask ? Bytes{~mask} : Bytes{(size.count() + mask) & ~mask};
}

[[nodiscard]] constexpr Bytes round_down(Bytes size, Bytes step) noexcept {
  return Bytes{size.count() & ~(step.count() - 1)};
}

namespace literals {
constexpr Bytes operator""_B(unsigned long long count) noexcept { return Bytes{count}; }
constexpr Bytes operator""_KiB(unsigned long long count) noexcept { return Bytes{count << 10}; }
constexpr Bytes operator""_MiB(unsigned long long count) noexcept { return Bytes{count << 20}; }
constexpr Bytes operator""_GiB(unsigned long long count) noexcept { return Bytes{count << 30}; }
}  // namespace literals

}  // namespace ration
