// The free memory inside a stream-ordered pool: the regions that the pool was seen to take from the device, and their
// unused parts. The driver does not say whether a request will make a pool grow; the map predicts it from the addresses
// handed out. Used by the pool hooks, under the pool's mutex. Promises: it never assumes more free memory than was seen
// (parts that it loses track of count as taken); memory from mmap only; no locks, no driver calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ration::guard {

/// The map of one pool. Not thread-safe.
class PoolMap {
 public:
  /// Returns true if some free part holds `size` bytes, so that the pool serves the request without growing.
  [[nodiscard]] bool fits(std::uint64_t size) noexcept;

  /// Records that the pool handed out [address, address + size) and reserved `growth` bytes more than before.
  /// `expected` is the growth that was foreseen, 0 if fits() returned true. A pool that grew by less may have given
  /// memory back as well.
  void taken(std::uint64_t address, std::uint64_t size, std::uint64_t growth, std::uint64_t expected) noexcept;

  /// Records that [address, address + size) came back to the pool.
  void returned(std::uint64_t address, std::uint64_t size) noexcept;

  /// Records that the pool gave memory back to the device. That memory may be any unused region, so the map forgets all
  /// unused regions.
  void shrunk() noexcept;

  /// Records that the driver grew the pool although a free part would have held the request. So the driver places
  /// blocks differently from what the map assumes, and fits() returns false from now on.
  void distrust() noexcept { trusted_ = false; }

  /// Forgets everything, but keeps the map's memory for the next pool at this index.
  void clear() noexcept;

 private:
  // Offsets inside a region, in units of the driver's block alignment.
  struct Gap {
    std::uint32_t begin, end;
  };
  static constexpr std::uint32_t kMaxGaps = 62;
  struct Region {
    std::uint64_t begin;
    std::uint32_t units, held;  // the units in all, and those handed out
    std::uint32_t largest;      // an upper bound for the sizes of its gaps
    std::uint32_t gaps;
    Gap gap[kMaxGaps];
  };

  Region* region_of(std::uint64_t address) noexcept;
  Region* add_region(std::uint64_t begin, std::uint64_t size) noexcept;
  static void reset(Region& region) noexcept;
  static void measure(Region& region) noexcept;
  static void remove_gap(Region& region, std::uint32_t index) noexcept;
  static void insert_gap(Region& region, std::uint32_t index, Gap gap) noexcept;

  Region* regions_ = nullptr;  // sorted by address
  std::size_t count_ = 0, capacity_ = 0, last_fit_ = 0;
  bool trusted_ = true;
};

}  // namespace ration::guard
