#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <vector>

#include "guard/hooks/blocks.hpp"

namespace ration::guard {
namespace {

constexpr std::uint64_t kBase = 0x7f0000000000;

struct Taken {
  std::uint64_t address, size;
};

std::set<std::uint64_t> granules_of(const std::vector<Taken>& blocks) {
  std::set<std::uint64_t> occupied;
  for (const Taken& block : blocks) {
    const std::uint64_t last = (block.address + block.size - 1) / kGranule.count();
    for (std::uint64_t granule = block.address / kGranule.count(); granule <= last; ++granule) occupied.insert(granule);
  }
  return occupied;
}

Bytes total(const Granules::Vacated& vacated) {
  Bytes sum;
  for (const Granules::Vacated::Part& part : vacated.parts) sum += part.size;
  return sum;
}

TEST(Granules, ChargeExactlyTheGranulesThatSomeBlockTouches) {
  const auto granules = std::make_unique<Granules>();
  std::mt19937_64 random(3);
  std::vector<Taken> blocks;
  Bytes charged;
  for (int step = 0; step < 5000; ++step) {
    if (blocks.size() < 40 && random() % 2 == 0) {
      // They may overlap, as a driver's blocks never do, and are counted all the same.
      const Taken block{kBase + random() % 64 * (kGranule.count() / 4), 1 + random() % kMaxPiece.count()};
      charged += granules->occupy(block.address, block.size, 1);
      blocks.push_back(block);
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      charged = charged - total(granules->vacate(blocks.back().address, blocks.back().size));
      blocks.pop_back();
    }
    ASSERT_EQ(charged, kGranule * granules_of(blocks).size());
  }
}

TEST(Granules, ALargeBlockCostsItsWholeGranules) {
  const auto granules = std::make_unique<Granules>();
  EXPECT_EQ(granules->occupy(kBase, 5 * kGranule.count() + 1, 1), kGranule * 6);
  EXPECT_EQ(total(granules->vacate(kBase, 5 * kGranule.count() + 1)), kGranule * 6);
}

TEST(Granules, AnExportedGranuleIsExportedUntilItsLastBlockIsFreed) {
  const auto granules = std::make_unique<Granules>();
  (void)granules->occupy(kBase, 4096, 1);
  (void)granules->occupy(kBase + 4096, 4096, 1);
  EXPECT_EQ(granules->exported_as(kBase, 4096), 0U);
  EXPECT_EQ(granules->mark_exported(kBase, 4096, 7), kGranule);
  EXPECT_EQ(granules->exported_as(kBase + 4096, 4096), 7U) << "with all that lies in it";
  EXPECT_EQ(granules->mark_exported(kBase + 4096, 4096, 8), Bytes{0});
  EXPECT_EQ(total(granules->vacate(kBase, 4096)), Bytes{0});
  const Granules::Vacated last = granules->vacate(kBase + 4096, 4096);
  EXPECT_EQ(last.parts[0].number, 7U);
  EXPECT_EQ(last.parts[0].size, kGranule);
}

TEST(Granules, ALargeBlockIsExportedUnderItsOwnNumber) {
  const auto granules = std::make_unique<Granules>();
  (void)granules->occupy(kBase, 5 * kGranule.count() + 1, 1);
  EXPECT_EQ(granules->mark_exported(kBase, 5 * kGranule.count() + 1, 9), kGranule * 6);
  const Granules::Vacated gone = granules->vacate(kBase, 5 * kGranule.count() + 1, 9);
  EXPECT_EQ(total(gone), kGranule * 6);
  for (const Granules::Vacated::Part& part : gone.parts) EXPECT_TRUE(part.number == 9 || part.size == Bytes{0});
}

TEST(Granules, KnowRoomByThePiecesThatAGranuleIsCutInto) {
  const auto granules = std::make_unique<Granules>();
  (void)granules->occupy(kBase, 3000, 1);
  EXPECT_TRUE(granules->has_room(1, 4096)) << "cut into pieces of 4 KiB";
  EXPECT_FALSE(granules->has_room(1, 8192)) << "of other pieces nothing is known";
  EXPECT_FALSE(granules->has_room(2, 4096)) << "another context's granule";
  (void)granules->occupy(kBase + 4096, 100, 1);
  EXPECT_FALSE(granules->has_room(1, 4096)) << "not cut into equal pieces after all";
}

TEST(Granules, AFullGranuleHasNoRoom) {
  const auto granules = std::make_unique<Granules>();
  for (std::uint64_t piece = 0; piece < 4; ++piece) {
    EXPECT_EQ(granules->has_room(1, 512 << 10), piece > 0);
    (void)granules->occupy(kBase + piece * (512 << 10), 512 << 10, 1);
  }
  EXPECT_FALSE(granules->has_room(1, 512 << 10));
}

}  // namespace
}  // namespace ration::guard
