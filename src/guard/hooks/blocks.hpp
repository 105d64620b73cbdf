// The 2 MiB granules that the process's plain allocations occupy. The driver lets small blocks share a granule and
// holds the granule until its last block is freed. So a granule is charged when its first block appears and refunded
// when its last block is freed. The addresses alone decide, so this holds for any driver's packing.
#pragma once

#include "base/bytes.hpp"
#include "guard/hooks/table.hpp"

namespace ration::guard {

/// The largest block that may share a granule; larger ones have granules of their own.
inline constexpr Bytes kMaxPiece{512 << 10};

/// Granules shared by small blocks, and those at the ends of large blocks. Thread-safe.
class Granules {
 public:
  /// Adds the block. Returns the bytes of granules that were unoccupied before.
  Bytes occupy(std::uint64_t address, std::uint64_t size, std::uint64_t context) noexcept;
  /// The bytes of granules that are no longer occupied. They are in parts, each with the number under which other
  /// processes may hold it.
  struct Vacated {
    struct Part {
      std::uint64_t number = 0;  // 0 if no other process can hold the part
      Bytes size;
    };
    Part parts[3];
  };
  /// Removes the block. `own` is the number of the block itself.
  Vacated vacate(std::uint64_t address, std::uint64_t size, std::uint64_t own = 0) noexcept;
  /// Marks the block as exported under `number`, together with the granules that it shares. Returns the bytes that were
  /// not exported before.
  Bytes mark_exported(std::uint64_t address, std::uint64_t size, std::uint64_t number) noexcept;
  /// Returns the number under which the block's granule is exported. Returns 0 if it is not exported, or if the block
  /// lies in several granules.
  [[nodiscard]] std::uint64_t exported_as(std::uint64_t address, std::uint64_t size) noexcept;
  /// Returns true if some granule occupied by the context's blocks appears to have room for a block of `size` bytes. A
  /// driver cuts a granule into pieces of one size, a power of two; a granule with blocks of another piece size does
  /// not count. Slow, because it walks all granules.
  bool has_room(std::uint64_t context, std::uint64_t size) noexcept;
  void abandon() noexcept { uses_.abandon(); }

 private:
  struct Use {
    std::uint32_t blocks = 0;
    std::uint8_t piece_bits = 0;  // log2 of the bytes of its pieces; kMixed if it has blocks of several piece sizes
    std::uint64_t context = 0;
    std::uint64_t number = 0;  // the number of its export; 0 if not exported
  };

  static constexpr std::uint8_t kMixed = 255;

  template <typename Partial>
  static Bytes walk(std::uint64_t address, std::uint64_t size, Partial&& partial) noexcept;

  Table<Use> uses_;
};

}  // namespace ration::guard
