#include "guard/hooks/pool_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace ration::guard {
namespace {

constexpr std::uint64_t kStep = 32 << 20;

/// A pool as drivers keep one: regions that it takes from the device, cut up first fit.
class ModelPool {
 public:
  /// The address; `growth` is what had to be taken for it.
  std::uint64_t allocate(std::uint64_t size, std::uint64_t& growth) {
    size = (size + 511) / 512 * 512;
    growth = 0;
    for (auto& [begin, length] : free_) {
      if (length >= size) return cut(begin, size);
    }
    growth = (size + kStep - 1) / kStep * kStep;
    const std::uint64_t begin = place(growth);
    regions_[begin] = growth;
    reserved_ += growth;
    free_[begin] = growth;
    return cut(begin, size);
  }

  void free(std::uint64_t address) {
    std::uint64_t size = used_.at(address);
    used_.erase(address);
    auto next = free_.lower_bound(address);
    if (next != free_.end() && next->first == address + size) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == address) {
        before->second += size;
        return;
      }
    }
    free_[address] = size;
  }

  /// Gives back every region that nobody holds a part of.
  bool trim() {
    bool any = false;
    for (auto region = regions_.begin(); region != regions_.end();) {
      const auto whole = free_.find(region->first);
      if (whole == free_.end() || whole->second != region->second) {
        ++region;
        continue;
      }
      free_.erase(whole);
      reserved_ -= region->second;
      region = regions_.erase(region);
      any = true;
    }
    return any;
  }

  [[nodiscard]] std::uint64_t reserved() const { return reserved_; }

 private:
  /// The lowest address with room for a region, never beside another.
  [[nodiscard]] std::uint64_t place(std::uint64_t size) const {
    std::uint64_t begin = 0x7f0000000000;
    for (const auto& [other, length] : regions_) {
      if (begin + size + kStep <= other) break;
      begin = other + length + kStep;
    }
    return begin;
  }

  std::uint64_t cut(std::uint64_t begin, std::uint64_t size) {
    const std::uint64_t rest = free_.at(begin) - size;
    free_.erase(begin);
    if (rest > 0) free_[begin + size] = rest;
    used_[begin] = size;
    return begin;
  }

  std::uint64_t reserved_ = 0;
  std::map<std::uint64_t, std::uint64_t> regions_, free_, used_;
};

struct Outcome {
  int grew_unforeseen = 0, foretold = 0, growth_feared = 0;
};

/// `notices`: whether the map is told at once when the pool gives memory back; otherwise it learns this from what the
/// pool reserves after the next allocation, as after a synchronisation by another thread.
Outcome play(unsigned seed, std::uint64_t largest, bool notices) {
  Outcome outcome;
  ModelPool pool;
  PoolMap map;
  std::mt19937_64 random(seed);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> held;
  std::uint64_t known = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % (notices ? 500 : 20) == 0 && pool.trim() && notices) {
      map.shrunk();
      known = pool.reserved();
    }
    // Few blocks, of which the pool can give up regions, where it does so unnoticed.
    if (held.empty() || (random() % 100 < 52 && (notices || held.size() < 6))) {
      const std::uint64_t size = 1 + random() % largest;
      std::uint64_t growth = 0;
      const bool fits = map.fits(size);
      const std::uint64_t expected = fits ? 0 : (size + kStep - 1) / kStep * kStep;
      const std::uint64_t address = pool.allocate(size, growth);
      if (pool.reserved() > known + expected) ++outcome.grew_unforeseen;
      if (pool.reserved() < known) map.shrunk();
      map.taken(address, size, pool.reserved() - std::min(known, pool.reserved()), expected);
      known = pool.reserved();
      held.emplace_back(address, size);
      if (fits) ++outcome.foretold;
      if (!fits && growth == 0) ++outcome.growth_feared;
    } else {
      std::swap(held[random() % held.size()], held.back());
      pool.free(held.back().first);
      map.returned(held.back().first, held.back().second);
      held.pop_back();
    }
  }
  return outcome;
}

TEST(PoolMap, NeverForetellsRoomWhereThePoolHasToGrow) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    for (const std::uint64_t largest : {std::uint64_t{4096}, std::uint64_t{3} << 20, std::uint64_t{80} << 20}) {
      const Outcome outcome = play(seed, largest, true);
      EXPECT_EQ(outcome.grew_unforeseen, 0);
      EXPECT_GT(outcome.foretold, 1000);
      // Gaps beyond those that a region can remember count as taken; it must not be the rule.
      EXPECT_LT(outcome.growth_feared, outcome.foretold / 20);
      EXPECT_EQ(play(seed, largest, false).grew_unforeseen, 0) << "a pool gives memory back unnoticed";
    }
  }
}

TEST(PoolMap, ForeseesNothingOnceTheDriverPlacedABlockElsewhere) {
  PoolMap map;
  map.taken(0x7f0000000000, 512, kStep, kStep);
  EXPECT_TRUE(map.fits(kStep - 512));
  EXPECT_FALSE(map.fits(kStep));
  map.distrust();
  EXPECT_FALSE(map.fits(512));
}

TEST(PoolMap, ForgetsRegionsWithoutABlockWhenThePoolShrank) {
  PoolMap map;
  map.taken(0x7f0000000000, 512, kStep, kStep);
  map.taken(0x7f8000000000, kStep, kStep, kStep);
  map.returned(0x7f8000000000, kStep);
  EXPECT_TRUE(map.fits(kStep));
  map.shrunk();
  EXPECT_FALSE(map.fits(kStep));
  EXPECT_TRUE(map.fits(kStep - 512)) << "the other region still has a block in it";
}

TEST(PoolMap, ForgetsAnEmptyRegionWhosePlaceAnotherOneTook) {
  PoolMap map;
  map.taken(0x7f0000000000, kStep, kStep, kStep);
  map.returned(0x7f0000000000, kStep);
  // The pool gave the region back unnoticed and took another one, which begins in its middle.
  map.taken(0x7f0000000000 + kStep / 2, kStep, 0, 0);
  EXPECT_FALSE(map.fits(512));
}

}  // namespace
}  // namespace ration::guard
