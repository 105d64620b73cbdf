#include <algorithm>
#include <bit>

#include "guard/hooks/blocks.hpp"

namespace ration::guard {
namespace {

// The smallest piece, as a power of 2: CUDA aligns the blocks in a shared granule to 512 bytes or a multiple.
constexpr int kMinPieceBits = 9;

std::uint8_t piece_bits(std::uint64_t size) noexcept {
  return static_cast<std::uint8_t>(std::max(kMinPieceBits, static_cast<int>(std::bit_width(size - 1))));
}

}  // namespace

// Returns the bytes of whole granules that belong to the block alone, plus `partial(granule, bytes)` for each granule
// that the block occupies in part; there are at most two.
template <typename Partial>
Bytes Granules::walk(std::uint64_t address, std::uint64_t size, Partial&& partial) noexcept {
  const std::uint64_t step = kGranule.count();
  const std::uint64_t end = address + size;
  const std::uint64_t first_whole = round_up(Bytes{address}, kGranule).count();
  const std::uint64_t end_whole = round_down(Bytes{end}, kGranule).count();
  if (first_whole > end_whole) return partial(address / step, size);  // the block lies inside one granule
  Bytes total{end_whole - first_whole};
  if (address < first_whole) total += partial(address / step, first_whole - address);
  if (end_whole < end) total += partial(end / step, end - end_whole);
  return total;
}

Bytes Granules::occupy(std::uint64_t address, std::uint64_t size, std::uint64_t context) noexcept {
  const std::uint8_t bits = piece_bits(size);
  return walk(address, size, [&](std::uint64_t granule, std::uint64_t) {
    bool first = false;
    uses_.update(granule, [&](Use& use) {
      first = use.blocks++ == 0;
      use.piece_bits = first || use.piece_bits == bits ? bits : kMixed;
      use.context = context;
      return true;
    });
    return first ? kGranule : Bytes{0};
  });
}

Granules::Vacated Granules::vacate(std::uint64_t address, std::uint64_t size, std::uint64_t own) noexcept {
  Vacated result;
  int ends = 0;
  Bytes of_ends;
  const Bytes total = walk(address, size, [&](std::uint64_t granule, std::uint64_t) {
    bool last = false;
    Vacated::Part part{0, kGranule};
    uses_.update(granule, [&](Use& use) {
      if (use.blocks == 0) return false;
      last = --use.blocks == 0;
      part.number = use.number;
      return !last;
    });
    if (!last) return Bytes{0};
    result.parts[ends++] = part;
    of_ends += kGranule;
    return kGranule;
  });
  result.parts[ends] = {own, total - of_ends};
  return result;
}

Bytes Granules::mark_exported(std::uint64_t address, std::uint64_t size, std::uint64_t number) noexcept {
  return walk(address, size, [&](std::uint64_t granule, std::uint64_t) {
    bool first = false;
    uses_.update(granule, [&](Use& use) {
      first = use.blocks > 0 && use.number == 0;
      if (first) use.number = number;
      return use.blocks > 0;
    });
    return first ? kGranule : Bytes{0};
  });
}

std::uint64_t Granules::exported_as(std::uint64_t address, std::uint64_t size) noexcept {
  std::uint64_t number = 0;
  Use use;
  const std::uint64_t granule = address / kGranule.count();
  if ((address + size - 1) / kGranule.count() == granule && uses_.find(granule, use)) number = use.number;
  return number;
}

bool Granules::has_room(std::uint64_t context, std::uint64_t size) noexcept {
  if (Bytes{size} > kMaxPiece) return false;
  const std::uint8_t bits = piece_bits(size);
  bool found = false;
  uses_.each([&](std::uint64_t, const Use& use) {
    if (use.context == context && use.piece_bits == bits && use.blocks < kGranule.count() >> bits) found = true;
  });
  return found;
}

}  // namespace ration::guard
