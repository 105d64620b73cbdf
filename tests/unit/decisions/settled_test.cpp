#include "node/limits/settled.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ration::node {
namespace {

using namespace ration::literals;

TEST(Settled, TheFirstCountsAtOnceAndOneThatIsOffNever) {
  Settled amount;
  EXPECT_EQ(amount.note(2_GiB), 2_GiB);
  EXPECT_FALSE(amount.is_changing());
  EXPECT_EQ(amount.note(3_GiB), 2_GiB);
  EXPECT_TRUE(amount.is_changing());
  EXPECT_EQ(amount.note(3_GiB), 2_GiB);
  EXPECT_EQ(amount.note(2_GiB), 2_GiB);
  EXPECT_FALSE(amount.is_changing());
  EXPECT_EQ(amount.note(1_GiB), 2_GiB);
  EXPECT_EQ(amount.note(3_GiB), 2_GiB) << "they contradict each other";
  EXPECT_EQ(amount.note(3_GiB), 2_GiB);
}

TEST(Settled, ThreeThatAgreeMoveItByWhatAllOfThemSay) {
  Settled amount;
  (void)amount.note(2_GiB);
  (void)amount.note(5_GiB);
  (void)amount.note(3_GiB);
  EXPECT_EQ(amount.note(4_GiB), 3_GiB);
  (void)amount.note(0_GiB);
  (void)amount.note(1_GiB);
  EXPECT_EQ(amount.note(0_GiB), 1_GiB);
}

TEST(Settled, WhateverIsMeasuredItStaysWithinWhatWasMeasuredAndFollowsWhatStays) {
  std::mt19937 random(7);
  for (int round = 0; round < 1'000; ++round) {
    Settled amount;
    Bytes least = kUnlimited, most, settled;
    for (int i = 0; i < 50; ++i) {
      const Bytes measured{random() % 1'000'000};
      least = std::min(least, measured);
      most = std::max(most, measured);
      settled = amount.note(measured);
      ASSERT_GE(settled, least);
      ASSERT_LE(settled, most);
    }
    const Bytes last{random() % 1'000'000};
    for (int i = 0; i < 6; ++i) settled = amount.note(last);
    ASSERT_EQ(settled, last);
    ASSERT_FALSE(amount.is_changing());
  }
}

}  // namespace
}  // namespace ration::node
