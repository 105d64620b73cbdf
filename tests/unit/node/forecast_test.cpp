#include "node/state/forecast.hpp"

#include <gtest/gtest.h>

#include "node/decisions/queue.hpp"

namespace ration::node {
namespace {

using namespace literals;

TEST(Forecast, SteadyGrowthIsFollowedToTheEnd) {
  Forecast forecast;
  for (std::uint64_t second = 0; second <= 120; second += 5)
    forecast.note("a", Bytes{second << 20} + 1_GiB, second * kSecond);
  EXPECT_EQ(forecast.seconds_to_full("a", 1_GiB), 1024U);  // a MiB a second
}

TEST(Forecast, SaysNothingTooEarlyOrWithoutGrowth) {
  Forecast early, flat, unknown;
  for (std::uint64_t second = 0; second < 55; second += 5) early.note("a", Bytes{second << 24}, second * kSecond);
  for (std::uint64_t second = 0; second <= 600; second += 5) flat.note("a", 3_GiB, second * kSecond);
  EXPECT_FALSE(early.seconds_to_full("a", 1_GiB));
  EXPECT_FALSE(flat.seconds_to_full("a", 1_GiB));
  EXPECT_FALSE(unknown.seconds_to_full("a", 1_GiB));
}

TEST(Forecast, ProgramsThatStartAreStepsAndNoTrend) {
  Forecast two, ever;
  for (std::uint64_t second = 0; second <= 90; second += 5) {
    two.note("a", second < 30 ? 1_GiB : second < 60 ? 3_GiB : 5_GiB, second * kSecond);
    ever.note("a", Bytes{(1 + second / 20) << 30}, second * kSecond);  // one each twenty seconds
  }
  EXPECT_FALSE(two.seconds_to_full("a", 4_GiB));
  EXPECT_FALSE(ever.seconds_to_full("a", 4_GiB));
}

TEST(Forecast, GrowthThatRestsNowAndThenIsSteadyStill) {
  Forecast forecast;
  for (std::uint64_t tick = 0; tick <= 24; ++tick) {
    const std::uint64_t steps = tick - tick / 4;  // three ticks of four
    forecast.note("a", Bytes{steps << 26}, tick * 5 * kSecond);
  }
  EXPECT_TRUE(forecast.seconds_to_full("a", 1_GiB));
}

TEST(Forecast, GrowthThatEndedAMinuteAgoIsNone) {
  Forecast forecast;
  for (std::uint64_t second = 0; second <= 300; second += 5)
    forecast.note("a", Bytes{std::min<std::uint64_t>(second, 235) << 24}, second * kSecond);
  EXPECT_FALSE(forecast.seconds_to_full("a", 1_GiB));
}

TEST(Forecast, AClockSetBackBeginsAnew) {
  Forecast forecast;
  for (std::uint64_t second = 0; second <= 120; second += 5) forecast.note("a", Bytes{second << 20}, second * kSecond);
  forecast.note("a", 1_GiB, 0);
  EXPECT_FALSE(forecast.seconds_to_full("a", 1_GiB));
}

TEST(Forecast, WhatIsNotLookedAtAnyMoreIsForgotten) {
  Forecast forecast;
  for (std::uint64_t second = 0; second <= 120; second += 5) forecast.note("a", Bytes{second << 20}, second * kSecond);
  forecast.note("b", 1_GiB, 700 * kSecond);
  EXPECT_TRUE(forecast.seconds_to_full("a", 1_GiB));
  forecast.note("c", 1_GiB, 800 * kSecond);
  EXPECT_FALSE(forecast.seconds_to_full("a", 1_GiB));
}

}  // namespace
}  // namespace ration::node
