#include "trace/whatif/cuda_async.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "trace/whatif/settings.hpp"

namespace ration::trace {
namespace {

constexpr std::uint64_t kAlignment = 512;
constexpr std::uint64_t kGrowth = 32 << 20;  // measured with driver releases 470 to 615 (tests/gpu)

/// A region that the pool took from the device, and the offsets of its free parts with their sizes.
struct Region {
  std::uint64_t bytes = 0;
  std::map<std::uint64_t, std::uint64_t> free;
  std::uint64_t largest = 0;  // upper bound for the size of a free part

  [[nodiscard]] bool is_idle() const { return free.size() == 1 && free.begin()->second == bytes; }
};

struct Place {
  std::uint32_t region = 0;
  std::uint64_t offset = 0, bytes = 0;
};

class CudaAsync final : public TriedAllocator {
 public:
  CudaAsync(AccountedDevice& device, std::uint32_t blocks) : device_(device), places_(blocks) {}
  ~CudaAsync() override {
    for (const Region& region : regions_) device_.give(region.bytes);
  }

  bool allocate(std::uint32_t block, std::uint64_t bytes, std::uint8_t) override {
    const std::uint64_t size = round_up(Bytes{bytes}, Bytes{kAlignment}).count();
    Place& place = places_[block];
    if (carve(size, place)) return true;
    const std::uint64_t growth = round_up(Bytes{size}, Bytes{kGrowth}).count();
    if (!device_.take(growth)) {
      trim();
      if (!device_.take(growth)) return false;
    }
    regions_.push_back({growth, {{0, growth}}, growth});
    return carve(size, place);
  }

  void free(std::uint32_t block) override {
    Place& place = places_[block];
    if (place.bytes == 0) return;
    Region& region = regions_[place.region];
    auto next = region.free.lower_bound(place.offset);
    std::uint64_t begin = place.offset, size = place.bytes;
    if (next != region.free.end() && next->first == begin + size) {
      size += next->second;
      next = region.free.erase(next);
    }
    if (next != region.free.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == begin) {
        previous->second += size;
        region.largest = std::max(region.largest, previous->second);
        place = {};
        return;
      }
    }
    region.free.emplace_hint(next, begin, size);
    region.largest = std::max(region.largest, size);
    place = {};
  }

 private:
  bool carve(std::uint64_t size, Place& place) {
    for (std::uint32_t index = 0; index < regions_.size(); ++index) {
      Region& region = regions_[index];
      if (region.largest < size) continue;
      std::uint64_t largest = 0;
      for (auto part = region.free.begin(); part != region.free.end(); ++part) {
        largest = std::max(largest, part->second);
        if (part->second < size) continue;
        place = {index, part->first, size};
        const std::uint64_t rest = part->second - size;
        const auto next = region.free.erase(part);
        if (rest > 0) region.free.emplace_hint(next, place.offset + size, rest);
        return true;
      }
      region.largest = largest;
    }
    return false;
  }

  /// Gives idle regions back, as the guard makes pools do before it denies.
  void trim() {
    for (Region& region : regions_) {
      if (region.bytes == 0 || !region.is_idle()) continue;
      device_.give(region.bytes);
      region = {};
    }
  }

  AccountedDevice& device_;
  std::vector<Region> regions_;
  std::vector<Place> places_;
};

}  // namespace

Result<MakeAllocator> make_cuda_async(std::string_view settings) {
  if (!settings.empty()) return no_setting(settings, "cuda_malloc_async");
  return [](AccountedDevice& device, std::uint32_t blocks) { return std::make_unique<CudaAsync>(device, blocks); };
}

}  // namespace ration::trace
