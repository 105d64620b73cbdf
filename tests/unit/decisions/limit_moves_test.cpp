#include "node/limits/limit_moves.hpp"

#include <gtest/gtest.h>

#include <random>

#include "base/clock.hpp"
#include "base/units.hpp"

namespace ration::node {
namespace {

using namespace ration::literals;

const LimitMoves::AccountKey kNlp{"/run/ration/w-nlp", 0}, kServe{"/run/ration/w-serve", 0};

TEST(LimitMoves, ABurstIsTakenOnceWithItsCountAndFromItsFirstToItsLast) {
  LimitMoves moves;
  moves.note(kNlp, 8_GiB, 6_GiB, "kept for serve", 10 * kSecond);
  moves.note(kNlp, 6_GiB, 7_GiB, "kept for serve", 12 * kSecond);
  moves.note(kNlp, 7_GiB, 5_GiB, "kept for vision", 14 * kSecond);
  EXPECT_TRUE(moves.take_ended(18 * kSecond).empty()) << "it may go on";
  const auto taken = moves.take_ended(19 * kSecond);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].account, kNlp);
  EXPECT_EQ(taken[0].from, 8_GiB);
  EXPECT_EQ(taken[0].to, 5_GiB);
  EXPECT_EQ(taken[0].count, 3U);
  EXPECT_EQ(taken[0].first_ns, 10 * kSecond);
  EXPECT_EQ(taken[0].last_ns, 14 * kSecond);
  EXPECT_EQ(taken[0].reason, "kept for vision");
  EXPECT_TRUE(moves.take_ended(1000 * kSecond).empty());
}

TEST(LimitMoves, WhatReadsTheSameIsNotTaken) {
  LimitMoves moves;
  moves.note(kNlp, 3962_MiB, 3964_MiB, "", kSecond);  // 3.87 GiB, both
  moves.note(kServe, 4_GiB, 6_GiB, "", kSecond);
  moves.note(kServe, 6_GiB, 4_GiB, "", 2 * kSecond);
  EXPECT_TRUE(moves.take_ended(100 * kSecond).empty());
  EXPECT_TRUE(moves.take_for(kServe.first).empty());
}

TEST(LimitMoves, SmallStepsAddUpToOneThatCanBeRead) {
  LimitMoves moves;
  std::uint64_t told = 0;
  for (std::uint64_t step = 0; step < 100; ++step) {  // 2 MiB every quarter of a minute
    moves.note(kNlp, Bytes{(4096 + 2 * step) << 20}, Bytes{(4098 + 2 * step) << 20}, "", step * 15 * kSecond);
    for (const auto& burst : moves.take_ended((step * 15 + 10) * kSecond)) {
      ++told;
      EXPECT_NE(format_size(burst.from), format_size(burst.to));
    }
  }
  EXPECT_GT(told, 10U);
  EXPECT_LT(told, 30U) << "0.01 GiB are five steps";
}

TEST(LimitMoves, OneThatDoesNotEndIsTakenOnceAMinute) {
  LimitMoves moves;
  std::size_t told = 0;
  for (std::uint64_t second = 1; second <= 600; ++second) {
    moves.note(kNlp, Bytes{second << 30}, Bytes{(second + 1) << 30}, "", second * kSecond);
    told += moves.take_ended(second * kSecond).size();
  }
  EXPECT_EQ(told, 9U);
}

TEST(LimitMoves, WhatCameOfItFindsItToldFirst) {
  LimitMoves moves;
  moves.note(kNlp, 8_GiB, 6_GiB, "", kSecond);
  moves.note(kServe, 2_GiB, 4_GiB, "", kSecond);
  const auto taken = moves.take_for(kNlp.first);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].account, kNlp);
  EXPECT_EQ(moves.take_ended(100 * kSecond).size(), 1U) << "the other one's";
}

TEST(LimitMoves, AfterSomebodyElseSetItTheNextOneBeginsThere) {
  LimitMoves moves;
  moves.note(kNlp, 8_GiB, 6_GiB, "", kSecond);
  EXPECT_EQ(moves.take_for(kNlp.first).size(), 1U);
  moves.forget(kNlp.first);
  moves.note(kNlp, 10_GiB, 9_GiB, "", 2 * kSecond);
  const auto taken = moves.take_ended(100 * kSecond);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].from, 10_GiB);
}

TEST(LimitMoves, WhateverHappensTheyFollowEachOtherAndCountEveryMove) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    LimitMoves moves;
    Bytes limit{std::uint64_t{random() % (8U << 20)} << 10}, told = limit;
    std::uint64_t now = 0, noted = 0, counted = 0;
    const auto check = [&](const std::vector<LimitMoves::Burst>& taken) {
      for (const auto& burst : taken) {
        ASSERT_EQ(burst.from, told);
        ASSERT_NE(format_size(burst.from), format_size(burst.to));
        ASSERT_LE(burst.first_ns, burst.last_ns);
        ASSERT_LT(burst.last_ns - burst.first_ns, LimitMoves::kMaxDelay + 4 * kSecond) << "until it is looked at";
        told = burst.to;
        counted += burst.count;
      }
    };
    for (int step = 0; step < 100; ++step) {
      now += random() % (4 * kSecond);
      if (random() % 2 != 0) {
        const Bytes fresh{std::uint64_t{random() % (8U << 20)} << 10};
        moves.note(kNlp, limit, fresh, "", now);
        limit = fresh;
        ++noted;
      }
      check(random() % 8 == 0 ? moves.take_for(kNlp.first) : moves.take_ended(now));
    }
    check(moves.take_ended(now + LimitMoves::kQuiet));
    ASSERT_LE(counted, noted);
    ASSERT_EQ(format_size(told), format_size(limit));
  }
}

}  // namespace
}  // namespace ration::node
