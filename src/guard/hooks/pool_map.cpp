#include "guard/hooks/pool_map.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace ration::guard {
namespace {

constexpr std::uint64_t kUnit = 512;  // pools hand out multiples of this (CUDA 11.2 to 13)
constexpr std::size_t kFirstCapacity = 32;

std::uint64_t units(std::uint64_t bytes) noexcept { return bytes / kUnit + (bytes % kUnit != 0 ? 1 : 0); }

}  // namespace

void PoolMap::reset(Region& region) noexcept {
  region.held = 0;
  region.gaps = 1;
  region.gap[0] = {0, region.units};
  region.largest = region.units;
}

void PoolMap::measure(Region& region) noexcept {
  region.largest = 0;
  for (std::uint32_t i = 0; i < region.gaps; ++i) {
    region.largest = std::max(region.largest, region.gap[i].end - region.gap[i].begin);
  }
}

void PoolMap::remove_gap(Region& region, std::uint32_t index) noexcept {
  --region.gaps;
  std::memmove(&region.gap[index], &region.gap[index + 1], (region.gaps - index) * sizeof(Gap));
}

// Inserts a gap. If there is no room for another gap, forgets the smallest gap; its bytes count as taken until the
// whole region is free.
void PoolMap::insert_gap(Region& region, std::uint32_t index, Gap gap) noexcept {
  if (region.gaps == kMaxGaps) {
    std::uint32_t smallest = 0;
    for (std::uint32_t i = 1; i < region.gaps; ++i) {
      if (region.gap[i].end - region.gap[i].begin < region.gap[smallest].end - region.gap[smallest].begin) smallest = i;
    }
    if (gap.end - gap.begin <= region.gap[smallest].end - region.gap[smallest].begin) return;
    remove_gap(region, smallest);
    if (smallest < index) --index;
  }
  std::memmove(&region.gap[index + 1], &region.gap[index], (region.gaps - index) * sizeof(Gap));
  region.gap[index] = gap;
  ++region.gaps;
}

PoolMap::Region* PoolMap::region_of(std::uint64_t address) noexcept {
  const auto holds = [&](const Region& region) { return address - region.begin < region.units * kUnit; };
  if (last_fit_ < count_ && holds(regions_[last_fit_])) return &regions_[last_fit_];
  Region* after = std::upper_bound(regions_, regions_ + count_, address,
                                   [](std::uint64_t value, const Region& region) { return value < region.begin; });
  if (after == regions_) return nullptr;
  return holds(after[-1]) ? after - 1 : nullptr;
}

PoolMap::Region* PoolMap::add_region(std::uint64_t begin, std::uint64_t size) noexcept {
  const std::uint64_t end = begin + size;
  const auto overlaps = [&](const Region& region) {
    return begin < region.begin + region.units * kUnit && region.begin < end;
  };
  // These regions overlap the new one, so they cannot exist any more.
  count_ = static_cast<std::size_t>(std::remove_if(regions_, regions_ + count_, overlaps) - regions_);
  if (size / kUnit > UINT32_MAX) return nullptr;
  if (count_ == capacity_) {
    const std::size_t wider = capacity_ == 0 ? kFirstCapacity : capacity_ * 2;
    void* memory =
        capacity_ == 0
            ? ::mmap(nullptr, wider * sizeof(Region), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
            : ::mremap(regions_, capacity_ * sizeof(Region), wider * sizeof(Region), MREMAP_MAYMOVE);
    if (memory == MAP_FAILED) return nullptr;
    regions_ = static_cast<Region*>(memory);
    capacity_ = wider;
  }
  Region* place = std::upper_bound(regions_, regions_ + count_, begin,
                                   [](std::uint64_t value, const Region& region) { return value < region.begin; });
  std::memmove(place + 1, place, static_cast<std::size_t>(regions_ + count_ - place) * sizeof(Region));
  ++count_;
  place->begin = begin;
  place->units = static_cast<std::uint32_t>(size / kUnit);
  reset(*place);
  return place;
}

bool PoolMap::fits(std::uint64_t size) noexcept {
  if (!trusted_) return false;
  const std::uint64_t wanted = units(size);
  if (last_fit_ < count_ && regions_[last_fit_].largest >= wanted) return true;
  for (std::size_t i = 0; i < count_; ++i) {
    if (regions_[i].largest < wanted) continue;
    last_fit_ = i;
    return true;
  }
  return false;
}

void PoolMap::taken(std::uint64_t address, std::uint64_t size, std::uint64_t growth, std::uint64_t expected) noexcept {
  if (growth < expected) shrunk();
  // A pool places the block that made it grow at the beginning of the new region.
  Region* region = growth >= size ? add_region(address, growth) : region_of(address);
  // In these cases the pool gave memory back unnoticed and then grew, perhaps at the place of a former region.
  if (region == nullptr || (region->held == 0 && region->begin != address)) return shrunk();
  const std::uint64_t begin = (address - region->begin) / kUnit;
  const std::uint64_t end = begin + units(size);
  for (std::uint32_t i = 0; i < region->gaps; ++i) {
    const Gap gap = region->gap[i];
    if (gap.end <= begin || end <= gap.begin) continue;
    const Gap before{gap.begin, static_cast<std::uint32_t>(begin)}, after{static_cast<std::uint32_t>(end), gap.end};
    const bool is_cut = begin <= gap.begin, is_cut_behind = gap.end <= end;
    if (is_cut && is_cut_behind)
      remove_gap(*region, i);
    else
      region->gap[i] = is_cut ? after : before;
    if (!is_cut && !is_cut_behind) insert_gap(*region, i + 1, after);
    break;
  }
  region->held += static_cast<std::uint32_t>(units(size));
  measure(*region);
}

void PoolMap::returned(std::uint64_t address, std::uint64_t size) noexcept {
  Region* region = region_of(address);
  if (region == nullptr) return;
  const auto length = static_cast<std::uint32_t>(units(size));
  Gap gap{static_cast<std::uint32_t>((address - region->begin) / kUnit), 0};
  gap.end = std::min(gap.begin + length, region->units);
  region->held -= std::min(region->held, length);
  if (region->held == 0) return reset(*region);
  std::uint32_t index = 0;
  while (index < region->gaps && region->gap[index].end < gap.begin) ++index;
  while (index < region->gaps && region->gap[index].begin <= gap.end) {
    gap = {std::min(gap.begin, region->gap[index].begin), std::max(gap.end, region->gap[index].end)};
    remove_gap(*region, index);
  }
  insert_gap(*region, index, gap);
  region->largest = std::max(region->largest, gap.end - gap.begin);
}

void PoolMap::shrunk() noexcept {
  const auto unheld = [](const Region& region) { return region.held == 0; };
  count_ = static_cast<std::size_t>(std::remove_if(regions_, regions_ + count_, unheld) - regions_);
}

void PoolMap::clear() noexcept {
  count_ = 0;
  last_fit_ = 0;
  trusted_ = true;
}

}  // namespace ration::guard
