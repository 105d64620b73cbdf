#include "trace/whatif/tensorflow.hpp"

#include <algorithm>
#include <memory_resource>
#include <optional>
#include <set>
#include <vector>

#include "base/strings.hpp"
#include "trace/whatif/settings.hpp"

namespace ration::trace {
namespace {

constexpr const char* kName = "TensorFlow";
constexpr std::uint64_t kStep = 256;
constexpr std::uint64_t kFirstRegion = 2 << 20;
/// The most that may be wasted inside a block.
constexpr std::uint64_t kMostPadding = 128 << 20;
constexpr double kBackpedal = 0.9F;
/// The distance between regions, so large that blocks of two regions never join.
constexpr std::uint64_t kRegionRange = std::uint64_t{1} << 50;

using Index = std::uint32_t;
constexpr Index kNone = UINT32_MAX;

constexpr std::uint64_t rounded(std::uint64_t bytes) { return std::max((bytes + kStep - 1) / kStep * kStep, kStep); }

/// Returns the bytes that TensorFlow leaves to the system if `available` bytes are free at its start (gpu_device.cc,
/// MinSystemMemory).
constexpr std::uint64_t system_reserve(std::uint64_t available, std::uint32_t capability) {
  if (available < std::uint64_t{1} << 31) return std::uint64_t{225} << 20;
  const std::uint64_t megabytes = capability <= 6 ? 500 : capability == 7 ? 1050 : capability == 8 ? 1536 : 1800;
  return megabytes << 20;
}

struct Chunk {
  std::uint64_t address = 0, size = 0;
  Index previous = kNone, next = kNone;
  Index region = 0;
  bool in_use = false;
};

struct Region {
  std::uint64_t bytes = 0, charged = 0;
  Index first = kNone;  // the chunk at the lowest address, which is never joined into another chunk
};

struct FreeChunk {
  std::uint64_t size, address;
  Index chunk;
  bool operator<(const FreeChunk& other) const {
    return size != other.size ? size < other.size : address < other.address;
  }
};

class Bfc final : public TriedAllocator {
 public:
  Bfc(AccountedDevice& device, std::uint32_t blocks, const TensorFlowSettings& settings)
      : device_(device), handed_out_(blocks, kNone) {
    const std::uint64_t available = device.left();
    const std::uint64_t reserve = settings.reserve.value_or(system_reserve(available, settings.capability));
    limit_ = settings.fraction > 0 ? static_cast<std::uint64_t>(settings.fraction * static_cast<double>(device.limit()))
                                   : available - (reserve < available ? reserve : 0);
    next_region_ = rounded(settings.growth ? std::min(limit_, kFirstRegion) : limit_);
    collects_ = settings.growth;
  }
  ~Bfc() override {
    for (const Region& region : regions_) device_.give(region.charged);
  }

  bool allocate(std::uint32_t block, std::uint64_t bytes, std::uint8_t) override {
    const std::uint64_t size = rounded(bytes);
    Index found = take_free(size);
    if (found == kNone && extend(size)) found = take_free(size);
    if (found == kNone && give_free_regions(size) && extend(size)) found = take_free(size);
    if (found == kNone) return false;
    handed_out_[block] = found;
    return true;
  }

  void free(std::uint32_t block) override {
    Index freed = std::exchange(handed_out_[block], kNone);
    if (freed == kNone) return;
    chunks_[freed].in_use = false;
    if (const Index next = chunks_[freed].next; is_free(next)) {
      free_.erase(key(next));
      join(freed);
    }
    if (const Index previous = chunks_[freed].previous; is_free(previous)) {
      free_.erase(key(previous));
      join(previous);
      freed = previous;
    }
    free_.insert(key(freed));
  }

 private:
  [[nodiscard]] bool is_free(Index index) const { return index != kNone && !chunks_[index].in_use; }
  [[nodiscard]] FreeChunk key(Index index) const { return {chunks_[index].size, chunks_[index].address, index}; }

  Index new_chunk() {
    if (unused_.empty()) {
      chunks_.emplace_back();
      return static_cast<Index>(chunks_.size() - 1);
    }
    const Index index = unused_.back();
    unused_.pop_back();
    chunks_[index] = {};
    return index;
  }

  void join(Index index) {
    const Index next = chunks_[index].next;
    chunks_[index].size += chunks_[next].size;
    chunks_[index].next = chunks_[next].next;
    if (chunks_[index].next != kNone) chunks_[chunks_[index].next].previous = index;
    unused_.push_back(next);
  }

  Index take_free(std::uint64_t size) {
    const auto it = free_.lower_bound({size, 0, 0});
    if (it == free_.end()) return kNone;
    const Index found = it->chunk;
    free_.erase(it);
    if (chunks_[found].size >= size * 2 || chunks_[found].size - size >= kMostPadding) split(found, size);
    chunks_[found].in_use = true;
    return found;
  }

  void split(Index index, std::uint64_t size) {
    const Index rest = new_chunk();
    Chunk& chunk = chunks_[index];
    chunks_[rest] = {chunk.address + size, chunk.size - size, index, chunk.next, chunk.region, false};
    if (chunk.next != kNone) chunks_[chunk.next].previous = rest;
    chunk.next = rest;
    chunk.size = size;
    free_.insert(key(rest));
  }

  bool extend(std::uint64_t size) {
    const std::uint64_t available = (limit_ - std::min(limit_, taken_)) / kStep * kStep;
    if (size > available) return false;
    bool increased = false;
    for (; size > next_region_; increased = true) next_region_ *= 2;
    std::uint64_t bytes = std::min(next_region_, available);
    while (!device_.take(charge_of(bytes))) {
      bytes = rounded(static_cast<std::uint64_t>(static_cast<double>(bytes) * kBackpedal));
      if (bytes < size) return false;
    }
    if (!increased) next_region_ *= 2;
    taken_ += bytes;
    const Index first = new_chunk();
    chunks_[first] = {kRegionRange * (regions_.size() + 1), bytes, kNone, kNone,
                      static_cast<Index>(regions_.size()),  false};
    regions_.push_back({bytes, charge_of(bytes), first});
    free_.insert(key(first));
    return true;
  }

  bool give_free_regions(std::uint64_t size) {
    if (!collects_) return false;
    const auto is_idle = [&](const Region& region) {
      return region.bytes > 0 && !chunks_[region.first].in_use && chunks_[region.first].size == region.bytes;
    };
    std::uint64_t idle = 0;
    for (const Region& region : regions_)
      if (is_idle(region)) idle += region.bytes;
    if (idle == 0 || size > limit_ - std::min(limit_, taken_) + idle) return false;
    for (Region& region : regions_) {
      if (!is_idle(region)) continue;
      free_.erase(key(region.first));
      unused_.push_back(region.first);
      device_.give(region.charged);
      taken_ -= region.bytes;
      region = {};
    }
    return true;
  }

  static std::uint64_t charge_of(std::uint64_t bytes) { return round_up(Bytes{bytes}, kGranule).count(); }

  AccountedDevice& device_;
  std::uint64_t limit_ = 0, next_region_ = 0, taken_ = 0;
  bool collects_ = true;
  std::pmr::unsynchronized_pool_resource memory_;
  std::pmr::set<FreeChunk> free_{&memory_};
  std::vector<Chunk> chunks_;
  std::vector<Index> unused_, handed_out_;
  std::vector<Region> regions_;
};

}  // namespace

Result<TensorFlowSettings> parse_tensorflow_settings(std::string_view text) {
  using Settings = TensorFlowSettings;
  static constexpr KnownSetting<Settings> kKnown[] = {
      {"growth", "True or False", [](auto value, Settings& to) { return set_to(parse_truth(value), to.growth); }},
      {"reserve_mb", "a number of MiB",
       [](auto value, Settings& to) { return set_to(parse_mib(value, 0), to.reserve); }},
      {"capability", "a compute capability without its point, 75 for 7.5",
       [](auto value, Settings& to) {
         const auto number = parse_number<std::uint32_t>(value);
         return number && *number < 100 && set_to(number, to.capability);
       }},
      {"fraction", "a number above 0 and at most 1",
       [](auto value, Settings& to) { return set_to(parse_share(value), to.fraction); }},
  };
  return parse_settings<Settings>(text, kName, kKnown);
}

MakeAllocator make_tensorflow(const TensorFlowSettings& settings) {
  return [settings](AccountedDevice& device, std::uint32_t blocks) {
    return std::make_unique<Bfc>(device, blocks, settings);
  };
}

}  // namespace ration::trace
