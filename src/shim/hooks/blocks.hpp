// Which 2 MiB granules the process's plain allocations occupy. The driver lets small blocks share a granule and holds
// the granule until its last block is freed, so that is what is charged: a granule when its first block appears, given
// back when its last one goes. Derived from the addresses alone, so it holds for any driver's packing.
#pragma once

#include "base/bytes.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {

/// Blocks up to this may share a granule; larger ones have granules of their own.
inline constexpr Bytes kMaxPiece{512 << 10};

/// Granules shared by small blocks, and the ends of large ones. Thread-safe.
class Granules {
 public:
  /// Counts the block in; returns the bytes of granules that nothing occupied before.
  Bytes occupy(std::uint64_t address, std::uint64_t size, std::uint64_t context) noexcept;
  /// Counts the block out; tells the bytes of granules that nothing occupies any more, and as what others may hold
  /// them. `own`: the number of the block itself.
  struct Vacated {
    struct Part {
      std::uint64_t number = 0;  // 0: nobody else holds it
      Bytes size;
    };
    Part parts[3];
  };
  Vacated vacate(std::uint64_t address, std::uint64_t size, std::uint64_t own = 0) noexcept;
  /// The block is exported as `number`, and with it the granules that it shares with others. Returns the bytes that
  /// were not exported before.
  Bytes mark_exported(std::uint64_t address, std::uint64_t size, std::uint64_t number) noexcept;
  /// As what the block's granule was exported, where it has only one, or 0.
  [[nodiscard]] std::uint64_t exported_as(std::uint64_t address, std::uint64_t size) noexcept;
  /// Whether some granule that the context's blocks occupy has room for one of `size` bytes, as far as can be told from
  /// outside: a driver cuts a granule into pieces of one size, a power of two, so one in which blocks of another piece
  /// size were seen does not count. Cold.
  bool has_room(std::uint64_t context, std::uint64_t size) noexcept;
  void abandon() noexcept { uses_.abandon(); }

 private:
  struct Use {
    std::uint32_t blocks = 0;
    std::uint8_t piece_bits = 0;  // its pieces have 2^this bytes; kMixed: blocks of several piece sizes
    std::uint64_t context = 0;
    std::uint64_t number = 0;  // as what it was exported; 0: it was not
  };

  static constexpr std::uint8_t kMixed = 255;

  template <typename Partial>
  static Bytes walk(std::uint64_t address, std::uint64_t size, Partial&& partial) noexcept;

  Table<Use> uses_;
};

}  // namespace ration::shim
