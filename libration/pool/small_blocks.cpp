#include "pool/small_blocks.hpp"

namespace ration::pool {
namespace {

// The size above which several threads may hold blocks of one slab; each block's state then gets its own cache line.
constexpr std::uint32_t kLargeBlock = 4096;
constexpr std::uint8_t kCacheLine = 64;

}  // namespace

SmallBlocks::SmallBlocks(Zone& zone) : zone_(zone), slab_of_unit_(std::size_t{zone.places()} * kUnitsPerGranule) {}

// Returns the units of a slab: room for at least eight blocks. A slab of a large class has no unused bytes at its end;
// a slab of a small class has fewer than a block has.
std::uint32_t SmallBlocks::slab_units(int size_class) noexcept {
  return static_cast<std::uint32_t>((std::uint64_t{8} * class_size(size_class) + kUnit.count() - 1) / kUnit.count());
}

std::uint32_t SmallBlocks::take(int size_class, StreamTag tag, std::uint32_t count, CachedBlock* out) {
  Row& row = row_of(size_class, tag);
  std::uint32_t taken = 0;
  while (taken < count && !row.slabs.empty()) {
    Slab& slab = *row.slabs.back();
    while (taken < count && slab.idle > 0) {
      const std::uint16_t block = slab.stack[--slab.idle];
      slab.state_of(block).store(BlockState::kCached, std::memory_order_relaxed);
      out[taken++] = {zone_.address_of(slab.start) + std::uint64_t{block} * class_size(size_class),
                      &slab.state_of(block)};
    }
    if (slab.idle == 0) leave_row(slab);
  }
  return taken;
}

void SmallBlocks::add_slab(int size_class, StreamTag tag, Run run) {
  auto& unused = unused_[static_cast<std::size_t>(size_class)];
  if (unused.empty()) {
    auto made = std::make_unique<Slab>();
    made->size_class = static_cast<std::uint8_t>(size_class);
    made->blocks = static_cast<std::uint32_t>(run.count * kUnit.count() / class_size(size_class));
    const auto steps = static_cast<std::uint32_t>(class_size(size_class) / kStep);
    made->reciprocal = ((1U << kReciprocalShift) + steps - 1) / steps;
    made->stack.resize(made->blocks);
    made->block_size = class_size(size_class);
    made->state_stride = made->block_size > kLargeBlock ? kCacheLine : 1;
    made->states = std::make_unique<std::atomic<BlockState>[]>(std::size_t{made->blocks} * made->state_stride);
    host_bytes_ += sizeof(Slab) + made->blocks * (sizeof(std::uint16_t) + made->state_stride);
    unused.push_back(made.get());
    slabs_.push_back(std::move(made));
  }
  Slab& slab = *unused.back();
  unused.pop_back();
  slab.start = run.start;
  slab.address = zone_.address_of(run.start);
  slab.units = run.count;
  slab.tag = tag;
  slab.idle = slab.blocks;
  for (std::uint32_t block = 0; block < slab.blocks; ++block) {
    slab.stack[slab.blocks - 1 - block] = static_cast<std::uint16_t>(block);  // so that the first block is taken first
    slab.state_of(block).store(BlockState::kIdle, std::memory_order_relaxed);
  }
  enter_row(slab);
  for (std::uint32_t unit = run.start; unit < run.start + run.count; ++unit) {
    slab_of_unit_[unit].store(&slab, std::memory_order_release);
  }
}

void SmallBlocks::put_back(const CachedBlock& block, StreamTag tag) {
  const Place place = find(block.address);
  Slab& slab = *place.slab;
  block.state->store(BlockState::kIdle, std::memory_order_relaxed);
  // A slab follows the order of the last stream that gave a block back. The caller has ordered that stream after the
  // former one.
  if (slab.tag != tag) {
    if (slab.in_row) leave_row(slab);
    slab.tag = tag;
  }
  slab.stack[slab.idle++] = static_cast<std::uint16_t>(place.block);
  if (!slab.in_row) enter_row(slab);
}

std::uint32_t SmallBlocks::drop_idle() {
  std::uint32_t units = 0;
  for (const auto& owned : slabs_) {
    Slab& slab = *owned;
    if (slab.units == 0 || slab.idle < slab.blocks) continue;
    leave_row(slab);
    for (std::uint32_t unit = slab.start; unit < slab.start + slab.units; ++unit) {
      slab_of_unit_[unit].store(nullptr, std::memory_order_release);
    }
    zone_.runs().release(slab.start, slab.tag);
    units += slab.units;
    slab.units = 0;
    unused_[slab.size_class].push_back(&slab);
  }
  return units;
}

void SmallBlocks::retag(StreamTag from, StreamTag to) {
  for (const auto& slab : slabs_) {
    if (slab->units == 0 || slab->tag != from) continue;
    const bool in_row = slab->in_row;
    if (in_row) leave_row(*slab);
    slab->tag = to;
    if (in_row) enter_row(*slab);
  }
}

SmallBlocks::Row& SmallBlocks::row_of(int size_class, StreamTag tag) {
  if (tag >= rows_.size()) rows_.resize(std::size_t{tag} + 1);
  return rows_[tag][static_cast<std::size_t>(size_class)];
}

void SmallBlocks::enter_row(Slab& slab) {
  auto& slabs = row_of(slab.size_class, slab.tag).slabs;
  slab.place_in_row = static_cast<std::uint32_t>(slabs.size());
  slab.in_row = true;
  slabs.push_back(&slab);
}

void SmallBlocks::leave_row(Slab& slab) {
  if (!slab.in_row) return;
  auto& slabs = row_of(slab.size_class, slab.tag).slabs;
  slabs[slab.place_in_row] = slabs.back();
  slabs[slab.place_in_row]->place_in_row = slab.place_in_row;
  slabs.pop_back();
  slab.in_row = false;
}

}  // namespace ration::pool
