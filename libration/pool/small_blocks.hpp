// Blocks up to 64 KiB. Sizes are rounded to classes, the blocks of a class are cut from a slab, and every thread keeps
// a few of each class for itself, so that most requests touch nothing that another thread uses. Used by pool.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "pool/zone.hpp"

namespace ration::pool {

inline constexpr std::uint64_t kMaxSmallBlock = 64 << 10;
inline constexpr std::uint64_t kStep = 256;  // the alignment of every block
inline constexpr int kClasses = 28;

/// The sizes of blocks: multiples of 256 up to 2 KiB, then four steps for each doubling.
struct Classes {
  std::array<std::uint32_t, kClasses> size{};
  std::array<std::uint8_t, kMaxSmallBlock / kStep + 1> of{};  ///< by size in steps, rounded up

  constexpr Classes() {
    int count = 0;
    for (std::uint32_t bytes = kStep; bytes <= 2048; bytes += kStep) size[static_cast<std::size_t>(count++)] = bytes;
    for (std::uint32_t power = 2048; power < kMaxSmallBlock; power *= 2) {
      for (std::uint32_t quarter = 1; quarter <= 4; ++quarter)
        size[static_cast<std::size_t>(count++)] = power + power / 4 * quarter;
    }
    for (std::size_t steps = 0; steps < of.size(); ++steps) {
      std::uint8_t index = 0;
      while (size[index] < steps * kStep) ++index;
      of[steps] = index;
    }
  }
};
inline constexpr Classes kClassTable;
static_assert(kClassTable.size[7] == 2048 && kClassTable.size[kClasses - 1] == kMaxSmallBlock);

/// Returns the class of a size from 1 to kMaxSmallBlock.
[[nodiscard]] inline int class_of(std::uint64_t size) noexcept { return kClassTable.of[(size + kStep - 1) / kStep]; }
[[nodiscard]] inline std::uint32_t class_size(int size_class) noexcept {
  return kClassTable.size[static_cast<std::size_t>(size_class)];
}

/// The fraction bits of `Slab::reciprocal`, enough for offsets in a slab (up to 512 KiB) and blocks of up to 64 KiB.
inline constexpr int kReciprocalShift = 20;

/// The state of one block of a slab.
enum class BlockState : std::uint8_t {
  kIdle,    ///< free, in the slab
  kCached,  ///< kept by a thread
  kLive,    ///< handed out
};

struct alignas(64) Slab {
  // These fields are read whenever a block is freed; they fill one cache line.
  std::uint64_t address = 0;
  std::unique_ptr<std::atomic<BlockState>[]> states;  ///< by block, `state_stride` apart
  std::uint32_t reciprocal = 0;  ///< offset / kStep * reciprocal >> kReciprocalShift is the block's number
  std::uint32_t block_size = 0;
  std::uint32_t blocks = 0;
  std::uint8_t size_class = 0;
  std::uint8_t state_stride = 1;  ///< from one block's state to the next's

  // These fields require the pool's lock.
  StreamTag tag = 0;        ///< the stream whose order the idle blocks follow
  std::uint32_t start = 0;  ///< unit in the zone
  std::uint32_t units = 0;
  alignas(64) std::uint32_t idle = 0;
  std::uint32_t place_in_row = 0;  ///< in its class's list of slabs with idle blocks
  bool in_row = false;
  std::vector<std::uint16_t> stack;  ///< idle blocks, the top `idle` entries

  [[nodiscard]] std::atomic<BlockState>& state_of(std::uint32_t block) const noexcept {
    return states[std::size_t{block} * state_stride];
  }
  /// Returns the number of blocks that are handed out.
  [[nodiscard]] std::uint32_t live() const noexcept {
    std::uint32_t count = 0;
    for (std::uint32_t block = 0; block < blocks; ++block) {
      if (state_of(block).load(std::memory_order_relaxed) == BlockState::kLive) ++count;
    }
    return count;
  }
};

/// A block with the pointer to its state, so that handing it out needs no search.
struct CachedBlock {
  std::uint64_t address = 0;
  std::atomic<BlockState>* state = nullptr;
};

/// The slabs of one zone. Changes require the pool's lock; find() needs none for blocks that are not idle.
class SmallBlocks {
 public:
  explicit SmallBlocks(Zone& zone);
  SmallBlocks(const SmallBlocks&) = delete;
  SmallBlocks& operator=(const SmallBlocks&) = delete;

  /// Takes up to `count` idle blocks of a class in that stream's order and makes them kCached. Returns how many there
  /// were.
  std::uint32_t take(int size_class, StreamTag tag, std::uint32_t count, CachedBlock* out);
  /// Makes a slab of that class from a run of slab_units() units, which the caller has taken from the zone.
  void add_slab(int size_class, StreamTag tag, Run run);
  [[nodiscard]] static std::uint32_t slab_units(int size_class) noexcept;

  struct Place {
    Slab* slab = nullptr;  ///< null: no slab contains the address
    std::uint32_t block = 0;
    bool exact = false;  ///< the address is the start of the block
  };
  [[nodiscard]] Place find(std::uint64_t address) const noexcept {
    Place place;
    place.slab = slab_of_unit_[zone_.unit_of(address)].load(std::memory_order_acquire);
    if (place.slab == nullptr) return place;
    const std::uint64_t offset = address - place.slab->address;
    place.block = static_cast<std::uint32_t>((offset / kStep * place.slab->reciprocal) >> kReciprocalShift);
    place.exact = place.block < place.slab->blocks && offset == std::uint64_t{place.block} * place.slab->block_size;
    return place;
  }

  /// Makes a kCached block idle in that stream's order. A slab whose blocks are all idle stays until drop_idle().
  void put_back(const CachedBlock& block, StreamTag tag);
  /// Gives the slabs whose blocks are all idle back to the zone. Returns the number of their units.
  std::uint32_t drop_idle();
  void retag(StreamTag from, StreamTag to);

  /// Calls `visit(slab)` for every slab.
  template <typename Visit>
  void each(Visit&& visit) const {
    for (const auto& slab : slabs_) {
      if (slab->units > 0) visit(*slab);
    }
  }
  [[nodiscard]] std::size_t host_bytes() const noexcept { return host_bytes_; }

 private:
  struct Row {
    std::vector<Slab*> slabs;  // the slabs with idle blocks
  };
  Row& row_of(int size_class, StreamTag tag);
  void enter_row(Slab& slab);
  void leave_row(Slab& slab);

  Zone& zone_;
  // The slab of each unit of the zone, or null. Read without the lock.
  LazyArray<std::atomic<Slab*>> slab_of_unit_;
  // All slabs ever made. None is freed while the pool exists, since find() may read one that is being dropped.
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::array<std::vector<Slab*>, kClasses> unused_;
  std::vector<std::array<Row, kClasses>> rows_;  // by tag
  std::size_t host_bytes_ = 0;
};

}  // namespace ration::pool
