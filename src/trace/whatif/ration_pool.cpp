#include "trace/whatif/ration_pool.hpp"

#include <algorithm>
#include <vector>

#include "pool/pool.hpp"
#include "trace/whatif/settings.hpp"

namespace ration::trace {
namespace {

/// The largest GPU on which the pool is tried. It determines the size of the pool's address range.
constexpr Bytes kLargest{std::uint64_t{1} << 40};

/// A backing that gives the pool granules of an AccountedDevice. Mapping costs nothing.
class AccountedBacking final : public pool::Backing {
 public:
  explicit AccountedBacking(AccountedDevice& device) : device_(device) {}
  ~AccountedBacking() override { device_.give(taken_); }

  pool::Outcome reserve(Bytes, std::uint64_t& base) override {
    base = kLargest.count();
    return pool::Outcome::kOk;
  }
  pool::Outcome create(pool::Granule& out) override {
    if (!device_.take(kGranule.count())) return pool::Outcome::kOutOfMemory;
    taken_ += kGranule.count();
    out = ++last_;
    return pool::Outcome::kOk;
  }
  void destroy(pool::Granule) override {
    taken_ -= kGranule.count();
    device_.give(kGranule.count());
  }
  pool::Outcome map(std::uint64_t, const pool::Granule*, std::size_t granules) override {
    calls_ += granules + 1;
    return pool::Outcome::kOk;
  }
  pool::Outcome unmap(std::uint64_t, Bytes) override {
    ++calls_;
    return pool::Outcome::kOk;
  }
  pool::Outcome order(pool::Stream, pool::Stream) override { return pool::Outcome::kOk; }
  pool::Outcome finish() override { return pool::Outcome::kOk; }
  Bytes available() override { return Bytes{device_.left()}; }

 private:
  AccountedDevice& device_;
  std::uint64_t taken_ = 0, last_ = 0;
};

class RationPool final : public TriedAllocator {
 public:
  RationPool(AccountedDevice& device, std::uint32_t blocks) : places_(blocks) {
    pool::Options options;
    options.device = kLargest;
    options.limit = std::min(Bytes{device.limit()}, kLargest);
    pool::Failure failure{};
    pool_ = pool::Pool::make(std::make_unique<AccountedBacking>(device), options, failure);
  }

  bool allocate(std::uint32_t block, std::uint64_t bytes, std::uint8_t stream) override {
    Place& place = places_[block];
    place.stream = stream;
    return pool_ && pool_->allocate(stream, Bytes{bytes}, 256, place.address) == pool::Failure::kNone;
  }
  void free(std::uint32_t block) override {
    Place& place = places_[block];
    if (place.address != 0) (void)pool_->deallocate(place.stream, place.address);
    place = {};
  }

 private:
  struct Place {
    std::uint64_t address = 0;
    pool::Stream stream = 0;
  };
  std::vector<Place> places_;
  std::unique_ptr<pool::Pool> pool_;
};

}  // namespace

Result<MakeAllocator> make_ration_pool(std::string_view settings) {
  if (!settings.empty()) return no_setting(settings, "ration's pool");
  return [](AccountedDevice& device, std::uint32_t blocks) { return std::make_unique<RationPool>(device, blocks); };
}

}  // namespace ration::trace
