#include "trace/whatif/pytorch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory_resource>
#include <set>
#include <vector>

#include "base/strings.hpp"
#include "trace/whatif/settings.hpp"

namespace ration::trace {
namespace {

constexpr const char* kName = "PyTorch";
constexpr std::uint64_t kMinBlock = 512;
constexpr std::uint64_t kSmallSize = 1 << 20;
constexpr std::uint64_t kSmallSegment = 2 << 20;
constexpr std::uint64_t kLargeSegment = 20 << 20;
constexpr std::uint64_t kMinLarge = 10 << 20;
constexpr std::uint64_t kRoundLarge = 2 << 20;
/// The size of the address range of an expandable segment, larger than any device. It is a whole number of pages,
/// because segments lie this far apart and pages are counted from the beginning of a segment.
constexpr std::uint64_t kExpandableRange = kLargeSegment << 26;

using Index = std::uint32_t;
constexpr Index kNone = UINT32_MAX;

struct Block {
  std::uint64_t address = 0, size = 0;
  Index previous = kNone, next = kNone;
  std::uint32_t idle_since = 0;  // number of requests to the pool when the block became free
  std::uint8_t stream = 0;
  bool small = false, in_use = false, mapped = true, expandable = false;
};

/// The order in which PyTorch looks for a free block: the smallest that is large enough.
struct BySize {
  std::uint64_t size, address;
  Index block;
  std::uint8_t stream;
  bool operator<(const BySize& other) const {
    if (stream != other.stream) return stream < other.stream;
    if (size != other.size) return size < other.size;
    return address < other.address;
  }
};
struct ByAddress {
  std::uint64_t address;
  Index block;
  std::uint8_t stream;
  bool operator<(const ByAddress& other) const {
    return stream != other.stream ? stream < other.stream : address < other.address;
  }
};

class PyTorch final : public TriedAllocator {
 public:
  PyTorch(AccountedDevice& device, std::uint32_t blocks, const PyTorchSettings& settings)
      : device_(device), settings_(settings), handed_out_(blocks, kNone) {}
  ~PyTorch() override { device_.give(reserved_); }

  bool allocate(std::uint32_t block, std::uint64_t bytes, std::uint8_t stream) override {
    const std::uint64_t size = rounded(bytes);
    Pool& pool = size <= kSmallSize ? small_ : large_;
    ++pool.requests;
    Index found = take_free(pool, size, stream);
    if (found == kNone) {
      if (settings_.memory_fraction > 0 && settings_.garbage_collection_threshold > 0) collect_garbage();
      found = make(pool, size, stream);
      if (found == kNone && release_oversized(pool, size, stream)) found = make(pool, size, stream);
      if (found == kNone) {
        release_cached(large_);
        release_cached(small_);
        found = make(pool, size, stream);
      }
    }
    if (found == kNone) return false;
    split(pool, found, size);
    blocks_[found].in_use = true;
    handed_out_[block] = found;
    return true;
  }

  void free(std::uint32_t block) override {
    const Index freed = std::exchange(handed_out_[block], kNone);
    if (freed == kNone) return;
    blocks_[freed].in_use = false;
    give_back(freed);
  }

 private:
  struct Pool {
    explicit Pool(std::pmr::memory_resource& memory) : free(&memory), unmapped(&memory) {}
    std::pmr::set<BySize> free;
    std::pmr::set<ByAddress> unmapped;
    std::uint32_t requests = 0;
  };

  [[nodiscard]] std::uint64_t rounded(std::uint64_t bytes) const {
    if (bytes < kMinBlock) return kMinBlock;
    const auto power = static_cast<int>(std::bit_width(bytes)) - 1;
    const std::uint64_t divisions =
        settings_.roundup_divisions[static_cast<std::size_t>(std::clamp(power - 20, 0, 15))];
    if (divisions > 1 && bytes > kMinBlock * divisions) {
      if (std::has_single_bit(bytes)) return bytes;
      const std::uint64_t part = std::bit_floor(bytes) >> (std::bit_width(divisions) - 1);
      if (part == 0) return std::bit_floor(bytes) << 1;
      return (bytes + part - 1) & ~(part - 1);
    }
    return (bytes + kMinBlock - 1) / kMinBlock * kMinBlock;
  }

  static std::uint64_t segment_for(std::uint64_t size) {
    if (size <= kSmallSize) return kSmallSegment;
    if (size < kMinLarge) return kLargeSegment;
    return (size + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
  }

  Pool& pool_of(const Block& block) { return block.small ? small_ : large_; }
  Index new_block() {
    if (!unused_.empty()) {
      const Index index = unused_.back();
      unused_.pop_back();
      blocks_[index] = {};
      return index;
    }
    blocks_.emplace_back();
    return static_cast<Index>(blocks_.size() - 1);
  }
  BySize key(Index index) const {
    const Block& block = blocks_[index];
    return {block.size, block.address, index, block.stream};
  }
  ByAddress place(Index index) const { return {blocks_[index].address, index, blocks_[index].stream}; }

  /// Returns the size of a block plus the unmapped room behind it, into which the block can grow.
  [[nodiscard]] std::uint64_t expandable_size(Index index) const {
    const Block& block = blocks_[index];
    const bool grows = block.next != kNone && !blocks_[block.next].mapped;
    return block.size + (grows ? blocks_[block.next].size : 0);
  }

  Index take_free(Pool& pool, std::uint64_t size, std::uint8_t stream) {
    auto it = pool.free.lower_bound({size, 0, 0, stream});
    if (it == pool.free.end() || it->stream != stream) return kNone;
    if (blocks_[it->block].expandable && settings_.expandable_segments) {
      for (auto next = std::next(it);
           blocks_[it->block].expandable && next != pool.free.end() && next->stream == stream &&
           expandable_size(next->block) < expandable_size(it->block);
           ++next)
        it = next;
    }
    if (size < settings_.max_split && it->size >= settings_.max_split) return kNone;
    if (size >= settings_.max_split && it->size >= size + settings_.max_non_split_rounding) return kNone;
    const Index found = it->block;
    pool.free.erase(it);
    return found;
  }

  bool take(std::uint64_t bytes) {
    if (settings_.memory_fraction > 0 &&
        static_cast<double>(reserved_ + bytes) > settings_.memory_fraction * static_cast<double>(device_.limit()))
      return false;
    if (!device_.take(bytes)) return false;
    reserved_ += bytes;
    return true;
  }
  void give(std::uint64_t bytes) {
    device_.give(bytes);
    reserved_ -= bytes;
  }

  Index make(Pool& pool, std::uint64_t size, std::uint8_t stream) {
    if (settings_.expandable_segments) return expand(pool, size, stream);
    const std::uint64_t segment = segment_for(size);
    if (!take(segment)) return kNone;
    const Index index = new_block();
    Block& block = blocks_[index];
    block.address = next_address_;
    next_address_ += segment;
    block.size = segment;
    block.stream = stream;
    block.small = &pool == &small_;
    return index;
  }

  // ---------------------------------------------------------------------------------------------- expandable segments

  [[nodiscard]] bool is_available(Index index) const { return index != kNone && !blocks_[index].in_use; }
  [[nodiscard]] bool has_room(Index index, std::uint64_t size) const {
    std::uint64_t bytes = 0;
    for (; bytes < size && is_available(index); index = blocks_[index].next) bytes += blocks_[index].size;
    return bytes >= size;
  }

  Index expandable_candidate(Pool& pool, std::uint64_t size, std::uint8_t stream) {
    for (auto it = pool.unmapped.lower_bound({0, 0, stream}); it != pool.unmapped.end() && it->stream == stream; ++it) {
      const Index before = blocks_[it->block].previous;
      const Index candidate = is_available(before) ? before : it->block;
      if (has_room(candidate, size)) return candidate;
    }
    const Index index = new_block();
    Block& block = blocks_[index];
    block.address = next_range_;
    next_range_ += kExpandableRange;
    block.size = kExpandableRange;
    block.stream = stream;
    block.small = &pool == &small_;
    block.mapped = false;
    block.expandable = true;
    pool.unmapped.insert(place(index));
    return index;
  }

  Index expand(Pool& pool, std::uint64_t size, std::uint8_t stream) {
    Index candidate = expandable_candidate(pool, size, stream);
    if (!blocks_[candidate].mapped) {
      candidate = map(pool, candidate, std::min(blocks_[candidate].size, size));
      if (candidate == kNone) return kNone;
    }
    while (blocks_[candidate].size < size) {
      const Index next = blocks_[candidate].next;
      candidate = map(pool, next, std::min(size - blocks_[candidate].size, blocks_[next].size));
      if (candidate == kNone) return kNone;
    }
    pool.free.erase(key(candidate));
    return candidate;
  }

  /// Maps the first `size` bytes of an unmapped block, rounded up to pages, and joins them with their free neighbours.
  /// Returns the joined block; kNone if the device denies the memory.
  Index map(Pool& pool, Index index, std::uint64_t size) {
    const std::uint64_t page = blocks_[index].small ? kSmallSegment : kLargeSegment;
    const std::uint64_t mapped = std::min((size + page - 1) / page * page, blocks_[index].size);
    if (!take(mapped)) return kNone;
    pool.unmapped.erase(place(index));
    blocks_[index].mapped = true;
    if (mapped < blocks_[index].size) {
      const Index rest = cut(index, mapped);
      blocks_[rest].mapped = false;
      pool.unmapped.insert(place(rest));
    }
    blocks_[index].idle_since = pool.requests;
    index = join_free(index);
    pool.free.insert(key(index));
    return index;
  }

  void unmap(Pool& pool, Index index) {
    const std::uint64_t page = blocks_[index].small ? kSmallSegment : kLargeSegment;
    const std::uint64_t begin = (blocks_[index].address + page - 1) / page * page;
    const std::uint64_t end = (blocks_[index].address + blocks_[index].size) / page * page;
    if (end <= begin) return;
    pool.free.erase(key(index));
    if (begin > blocks_[index].address) {
      const Index rest = cut(index, begin - blocks_[index].address);
      pool.free.insert(key(index));
      index = rest;
    }
    if (end < blocks_[index].address + blocks_[index].size) {
      const Index rest = cut(index, end - blocks_[index].address);
      pool.free.insert(key(rest));
    }
    give(end - begin);
    blocks_[index].mapped = false;
    for (const Index neighbour : {blocks_[index].previous, blocks_[index].next}) {
      if (neighbour == kNone || blocks_[neighbour].mapped) continue;
      pool.unmapped.erase(place(neighbour));
      index =
          join(std::min(index, neighbour, [&](Index a, Index b) { return blocks_[a].address < blocks_[b].address; }));
    }
    pool.unmapped.insert(place(index));
  }

  // ------------------------------------------------------------------------------------------------ blocks in segments

  /// Cuts a block in two. Returns the second part.
  Index cut(Index index, std::uint64_t size) {
    const Index rest = new_block();
    Block& block = blocks_[index];
    blocks_[rest] = block;
    blocks_[rest].address += size;
    blocks_[rest].size -= size;
    blocks_[rest].previous = index;
    if (block.next != kNone) blocks_[block.next].previous = rest;
    block.next = rest;
    block.size = size;
    return rest;
  }

  /// Joins a block with the next block. Returns the joined block.
  Index join(Index index) {
    Block& block = blocks_[index];
    const Index next = block.next;
    block.size += blocks_[next].size;
    block.next = blocks_[next].next;
    if (block.next != kNone) blocks_[block.next].previous = index;
    unused_.push_back(next);
    return index;
  }

  /// Joins a free block with its free neighbours, which it removes from the pool's set of free blocks. The block itself
  /// must not be in that set.
  Index join_free(Index index) {
    Pool& pool = pool_of(blocks_[index]);
    const auto joins = [&](Index other) {
      return other != kNone && !blocks_[other].in_use && blocks_[other].mapped == blocks_[index].mapped;
    };
    if (const Index next = blocks_[index].next; joins(next)) {
      pool.free.erase(key(next));
      join(index);
    }
    if (const Index previous = blocks_[index].previous; joins(previous)) {
      pool.free.erase(key(previous));
      index = join(previous);
    }
    return index;
  }

  void split(Pool& pool, Index index, std::uint64_t size) {
    const std::uint64_t rest = blocks_[index].size - size;
    const bool splits = &pool == &small_ || settings_.expandable_segments
                            ? rest >= kMinBlock
                            : size < settings_.max_split && rest > kSmallSize;
    if (!splits) return;
    const Index free = cut(index, size);
    blocks_[free].in_use = false;
    blocks_[free].idle_since = pool.requests;
    pool.free.insert(key(free));
  }

  void give_back(Index index) {
    index = join_free(index);
    Pool& pool = pool_of(blocks_[index]);
    blocks_[index].idle_since = pool.requests;
    pool.free.insert(key(index));
  }

  // --------------------------------------------------------------------------------------------- giving back to CUDA

  [[nodiscard]] bool is_whole(Index index) const {
    return blocks_[index].previous == kNone && blocks_[index].next == kNone;
  }
  std::pmr::set<BySize>::iterator release(Pool& pool, std::pmr::set<BySize>::iterator it) {
    give(it->size);
    unused_.push_back(it->block);
    return pool.free.erase(it);
  }

  void release_cached(Pool& pool) {
    std::vector<Index> to_unmap;
    for (auto it = pool.free.begin(); it != pool.free.end();) {
      if (blocks_[it->block].expandable)
        to_unmap.push_back((it++)->block);
      else
        it = is_whole(it->block) ? release(pool, it) : std::next(it);
    }
    for (const Index index : to_unmap) unmap(pool, index);
  }

  /// If `max_split` is set, gives free blocks of at least that size back to CUDA, to make room for the request. Returns
  /// true if another attempt may succeed.
  bool release_oversized(Pool& pool, std::uint64_t size, std::uint8_t stream) {
    if (settings_.max_split == UINT64_MAX) return false;
    const std::uint64_t wanted = std::max(size, settings_.max_split);
    auto it = pool.free.lower_bound({wanted, 0, 0, stream});
    if (it != pool.free.end() && it->stream == stream) {
      if (is_whole(it->block)) release(pool, it);
      return true;
    }
    std::uint64_t released = 0;
    while (it != pool.free.begin() && released < wanted) {
      const auto largest = std::prev(it);
      if (largest->stream != stream || largest->size < settings_.max_split) break;
      it = largest;
      if (blocks_[it->block].expandable || !is_whole(it->block)) continue;
      released += it->size;
      it = release(pool, it);
    }
    return released >= wanted;
  }

  void collect_garbage() {
    const double allowed = settings_.memory_fraction * static_cast<double>(device_.limit());
    const auto threshold = static_cast<std::uint64_t>(settings_.garbage_collection_threshold * allowed);
    if (reserved_ <= threshold) return;
    const std::uint64_t target = reserved_ - threshold;
    const auto age = [&](Index index) { return large_.requests - blocks_[index].idle_since; };
    double total = 0;
    std::size_t count = 0;
    for (const BySize& free : large_.free)
      if (is_whole(free.block)) total += age(free.block), ++count;
    std::uint64_t reclaimed = 0;
    for (bool freed = true; reclaimed < target && freed && count > 0;) {
      const double oldest = total / static_cast<double>(count);
      freed = false;
      for (auto it = large_.free.begin(); it != large_.free.end();) {
        if (!is_whole(it->block) || blocks_[it->block].expandable || age(it->block) < oldest) {
          ++it;
          continue;
        }
        freed = true;
        reclaimed += it->size;
        total -= age(it->block);
        --count;
        it = release(large_, it);
      }
    }
  }

  AccountedDevice& device_;
  const PyTorchSettings settings_;
  std::pmr::unsynchronized_pool_resource memory_;
  Pool small_{memory_}, large_{memory_};
  std::vector<Block> blocks_;
  std::vector<Index> unused_, handed_out_;
  std::uint64_t reserved_ = 0;
  std::uint64_t next_address_ = kExpandableRange, next_range_ = kExpandableRange << 1;
};

/// Reads the number of divisions: `4` for all sizes, or `[256:1,512:2,>:8]` by size in MiB.
bool read_divisions(std::string_view text, PyTorchSettings& settings) {
  auto& divisions = settings.roundup_divisions;
  if (const auto all = parse_number<std::uint32_t>(text); all && std::has_single_bit(*all)) {
    divisions.fill(*all);
    return true;
  }
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  std::size_t last = 0;
  bool first = true;
  for (const std::string_view entry : split(text.substr(1, text.size() - 2), ',')) {
    const auto parts = split_once(entry, ':');
    const auto count = parts ? parse_number<std::uint32_t>(parts->second) : std::nullopt;
    if (!count || !std::has_single_bit(*count)) return false;
    if (parts->first == ">") {
      std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(std::min(last, divisions.size())), divisions.end(),
                *count);
      continue;
    }
    const auto from = parse_number<std::uint64_t>(parts->first);
    if (!from || !std::has_single_bit(*from)) return false;
    const auto index = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(*from) - 1), divisions.size() - 1);
    if (std::exchange(first, false))
      std::fill(divisions.begin(), divisions.begin() + static_cast<std::ptrdiff_t>(index), *count);
    divisions[index] = *count;
    last = index + 1;
  }
  return true;
}

}  // namespace

Result<PyTorchSettings> parse_pytorch_settings(std::string_view text) {
  using Settings = PyTorchSettings;
  static constexpr std::uint64_t kLeastMib = 21;  // as in PyTorch: more than a large segment, 20 MiB
  static constexpr KnownSetting<Settings> kKnown[] = {
      {"max_split_size_mb", "a number of MiB above 20",
       [](auto value, Settings& to) { return set_to(parse_mib(value, kLeastMib), to.max_split); }},
      {"max_non_split_rounding_mb", "a number of MiB above 20",
       [](auto value, Settings& to) { return set_to(parse_mib(value, kLeastMib), to.max_non_split_rounding); }},
      {"garbage_collection_threshold", "a number above 0 and below 1",
       [](auto value, Settings& to) {
         const auto share = parse_share(value);
         return share && *share < 1 && set_to(share, to.garbage_collection_threshold);
       }},
      {"per_process_memory_fraction", "a number above 0 and at most 1",
       [](auto value, Settings& to) {
         const auto share = parse_share(value);
         return share && set_to(share == 1 ? std::optional(0.0) : share, to.memory_fraction);
       }},
      {"expandable_segments", "True or False",
       [](auto value, Settings& to) { return set_to(parse_truth(value), to.expandable_segments); }},
      {"roundup_power2_divisions", "a power of two, or a list as [256:1,512:2,>:4]", read_divisions},
  };
  return parse_settings<Settings>(text, kName, kKnown);
}

MakeAllocator make_pytorch(const PyTorchSettings& settings) {
  return [settings](AccountedDevice& device, std::uint32_t blocks) {
    return std::make_unique<PyTorch>(device, blocks, settings);
  };
}

}  // namespace ration::trace
