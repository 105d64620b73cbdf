// What is known of the free memory inside a stream-ordered pool: the regions it was seen to take from the device and
// the parts of them that nobody holds. The driver does not tell whether a request will make a pool grow; this does,
// from the addresses that it handed out. Used by the pool hooks, under the pool's mutex. Promises: never more free
// memory is assumed than was seen (what cannot be kept track of counts as taken); memory from mmap only; no locks, no
// driver calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ration::shim {

/// Not thread-safe.
class PoolMap {
 public:
  /// Whether some free part holds `size` bytes, so that the pool serves it without growing.
  [[nodiscard]] bool fits(std::uint64_t size) noexcept;

  /// The pool handed out [address, address + size) and grew by `growth` bytes, 0 if it did not.
  void taken(std::uint64_t address, std::uint64_t size, std::uint64_t growth) noexcept;

  /// [address, address + size) came back to the pool.
  void returned(std::uint64_t address, std::uint64_t size) noexcept;

  /// The pool gave memory back to the device: which of the regions that nobody holds a part of is not known, so all of
  /// them are forgotten.
  void shrunk() noexcept;

  /// The driver grew the pool although a free part would have held the request: it does not place blocks as assumed
  /// here. From now on nothing fits.
  void distrust() noexcept { trusted_ = false; }

  /// Forgets everything, keeping the memory for the next pool in this place.
  void clear() noexcept;

 private:
  // Offsets inside a region, in units of the driver's block alignment.
  struct Gap {
    std::uint32_t begin, end;
  };
  static constexpr std::uint32_t kMaxGaps = 62;
  struct Region {
    std::uint64_t begin;
    std::uint32_t units, held;  // size, and how much of it is handed out
    std::uint32_t largest;      // no gap is larger
    std::uint32_t gaps;
    Gap gap[kMaxGaps];
  };

  Region* region_of(std::uint64_t address) noexcept;
  Region* add_region(std::uint64_t begin, std::uint64_t size) noexcept;
  static void reset(Region& region) noexcept;
  static void measure(Region& region) noexcept;
  static void remove_gap(Region& region, std::uint32_t index) noexcept;
  static void insert_gap(Region& region, std::uint32_t index, Gap gap) noexcept;

  Region* regions_ = nullptr;  // by address
  std::size_t count_ = 0, capacity_ = 0, last_fit_ = 0;
  bool trusted_ = true;
};

}  // namespace ration::shim
