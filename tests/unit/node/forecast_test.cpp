#include "node/watch/forecast.hpp"

#include <gtest/gtest.h>

#include "node/queue/queue.hpp"

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

/// A device of 16 GiB on which two workloads hold 1 GiB each, and the first grows by 16 MiB a second within its limit.
std::optional<std::uint64_t> device_full_in(Bytes limit_of_the_growing, Bytes limit_of_the_other,
                                            bool ungoverned_grows) {
  Forecast forecast;
  Snapshot now;
  for (std::uint64_t second = 0; second <= 120; second += 5) {
    const Bytes growth{second << 24};
    now = {};
    DeviceView device;
    device.device.total = 16_GiB;
    device.device.uuid = "GPU-1";
    device.device.index = 0;
    device.governed = ungoverned_grows ? 2_GiB : 2_GiB + growth;
    device.device.free = 14_GiB - growth;
    now.devices = {device};
    for (const char* path : {"grows", "rests"}) {
      AccountView account;
      account.path = path;
      account.gpu = 0;
      account.used = account.path == "grows" && !ungoverned_grows ? 1_GiB + growth : 1_GiB;
      account.limit = account.path == "grows" ? limit_of_the_growing : limit_of_the_other;
      now.accounts.push_back(account);
    }
    forecast_devices(forecast, now, second * kSecond);
  }
  return now.devices.front().seconds_to_full;
}

TEST(Forecast, ADeviceIsNotFullBeforeWhatGrowsMayGrowSoFar) {
  EXPECT_TRUE(device_full_in(16_GiB, 2_GiB, false));
  EXPECT_FALSE(device_full_in(4_GiB, 2_GiB, false));
  EXPECT_FALSE(device_full_in(4_GiB, 16_GiB, false));  // one that does not grow fills nothing
  EXPECT_TRUE(device_full_in(4_GiB, 4_GiB, true));     // nothing limits what is not governed
}

}  // namespace
}  // namespace ration::node
