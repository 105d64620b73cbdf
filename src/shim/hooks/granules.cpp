#include <algorithm>

#include "shim/hooks/blocks.hpp"

namespace ration::shim {

// Whole granules belong to the block alone; `partial(granule, bytes)` is asked for the at most two others.
template <typename Partial>
Bytes Granules::walk(std::uint64_t address, std::uint64_t size, Partial&& partial) noexcept {
  const std::uint64_t step = kGranule.count();
  const std::uint64_t end = address + size;
  const std::uint64_t first_whole = round_up(Bytes{address}, kGranule).count();
  const std::uint64_t end_whole = round_down(Bytes{end}, kGranule).count();
  if (first_whole > end_whole) return partial(address / step, size);  // inside one granule
  Bytes total{end_whole - first_whole};
  if (address < first_whole) total += partial(address / step, first_whole - address);
  if (end_whole < end) total += partial(end / step, end - end_whole);
  return total;
}

Bytes Granules::occupy(std::uint64_t address, std::uint64_t size, std::uint32_t account) noexcept {
  return walk(address, size, [&](std::uint64_t granule, std::uint64_t bytes) {
    bool first = false;
    uses_.update(granule, [&](Use& use) {
      first = use.blocks++ == 0;
      use.account = account;
      use.bytes += bytes;
      return true;
    });
    return first ? kGranule : Bytes{0};
  });
}

Bytes Granules::vacate(std::uint64_t address, std::uint64_t size, Bytes& shared) noexcept {
  return walk(address, size, [&](std::uint64_t granule, std::uint64_t bytes) {
    bool last = false;
    uses_.update(granule, [&](Use& use) {
      if (use.blocks == 0) return false;
      use.bytes -= std::min(use.bytes, bytes);
      last = --use.blocks == 0;
      if (last && use.exported) shared += kGranule;
      return !last;
    });
    return last ? kGranule : Bytes{0};
  });
}

void Granules::mark_exported(std::uint64_t address, std::uint64_t size) noexcept {
  (void)walk(address, size, [&](std::uint64_t granule, std::uint64_t) {
    uses_.update(granule, [&](Use& use) {
      use.exported = use.blocks > 0;
      return use.exported;
    });
    return Bytes{0};
  });
}

bool Granules::may_have_room(std::uint32_t account, std::uint64_t size) noexcept {
  bool found = false;
  uses_.each([&](std::uint64_t, const Use& use) {
    if (use.account == account && use.bytes + size <= kGranule.count()) found = true;
  });
  return found;
}

}  // namespace ration::shim
