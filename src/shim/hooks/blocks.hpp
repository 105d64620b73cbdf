// Which 2 MiB granules the process's plain allocations occupy. The driver lets small blocks share a granule and holds
// the granule until its last block is freed, so that is what is charged: a granule when its first block appears, given
// back when its last one goes. Derived from the addresses alone, so it holds for any driver's packing.
#pragma once

#include "base/bytes.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {

/// Blocks up to this may share a granule; larger ones have granules of their own.
inline constexpr Bytes kLargestPiece{512 << 10};

/// Granules shared by small blocks, and the ends of large ones. Thread-safe.
class Granules {
 public:
  /// Counts the block in; returns the bytes of granules that nothing occupied before.
  Bytes occupy(std::uint64_t address, std::uint64_t size, std::uint64_t context) noexcept;
  /// Counts the block out; returns the bytes of granules that nothing occupies any more. `shared` grows by those of
  /// them that it had in common with a block that was exported.
  Bytes vacate(std::uint64_t address, std::uint64_t size, Bytes& shared) noexcept;
  /// The block is exported, and with it the granules that it shares with others.
  void mark_exported(std::uint64_t address, std::uint64_t size) noexcept;
  /// Whether some granule that the context's blocks occupy has room for one of `size` bytes, as far as can be told from
  /// outside: a driver cuts a granule into pieces of one size, a power of two, so one in which blocks of another piece
  /// size were seen does not count. Cold.
  bool has_room(std::uint64_t context, std::uint64_t size) noexcept;
  void abandon() noexcept { uses_.abandon(); }

 private:
  struct Use {
    std::uint32_t blocks = 0;
    std::uint8_t piece_bits = 0;  // its pieces have 2^this bytes; kMixed: blocks of several piece sizes
    bool exported = false;
    std::uint64_t context = 0;
  };

  static constexpr std::uint8_t kMixed = 255;

  template <typename Partial>
  static Bytes walk(std::uint64_t address, std::uint64_t size, Partial&& partial) noexcept;

  Table<Use> uses_;
};

}  // namespace ration::shim
