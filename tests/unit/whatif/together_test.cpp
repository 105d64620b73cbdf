// Recorded runs side by side.
#include "trace/whatif/together.hpp"

#include <gtest/gtest.h>

#include <random>

#include "recording_fixture.hpp"

namespace ration::trace {
namespace {

Curve curve(std::vector<Curve::Point> points, std::int64_t length) {
  Curve result;
  result.length = length;
  for (const auto& point : points) result.peak = std::max(result.peak, Bytes{point.bytes});
  result.points = std::move(points);
  return result;
}

std::uint64_t held(const Curve& run, std::int64_t time) {
  std::uint64_t bytes = 0;
  if (time < 0 || time >= run.length) return 0;
  for (const auto& point : run.points)
    if (point.begin <= time) bytes = point.bytes;
  return bytes;
}

TEST(Together, TwoRunsExceedASizeOnlyAtSomeStarts) {
  // The first holds 10 from 100 to 200, the second 8 in its first 50; else both hold 2.
  const Curve first = curve({{0, 2}, {100, 10}, {200, 2}}, 300);
  const Curve second = curve({{0, 8}, {50, 2}}, 100);
  EXPECT_TRUE(starts_over(first, second, Bytes{18}).empty());
  EXPECT_EQ(starts_over(first, second, Bytes{17}), (std::vector<Starts>{{50, 200}}));
  EXPECT_EQ(starts_over(first, second, Bytes{11}), (std::vector<Starts>{{0, 200}}));
  EXPECT_EQ(starts_over(first, second, Bytes{9}), (std::vector<Starts>{{-50, 300}}));
}

// Every start is compared with the sum at every moment.
TEST(Together, StartsAreThoseAtWhichTheSumExceedsTheSize) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    const auto some = [&] {
      std::vector<Curve::Point> points;
      for (std::int64_t time = 0; time < 30; time += 1 + random() % 6) points.push_back({time, random() % 20});
      return curve(points, 30);
    };
    const Curve first = some(), second = some();
    const Bytes size{19 + random() % 16};
    const auto over = starts_over(first, second, size);
    for (std::int64_t start = -31; start <= 31; ++start) {
      bool exceeds = false;
      for (std::int64_t time = -31; time < 62; ++time)
        exceeds = exceeds || held(first, time) + held(second, time - start) > size.count();
      bool is_named = false;
      for (const auto& [begin, end] : over) is_named = is_named || (begin < start && start < end);
      EXPECT_EQ(is_named, exceeds) << start;
    }
  }
}

TEST(Together, TheWorstIsTheSumOfThePeaksAtSomeStart) {
  const Curve first = curve({{0, 2}, {100, 10}, {200, 2}}, 300);
  const Curve second = curve({{0, 1}, {50, 7}}, 100);
  EXPECT_TRUE(starts_over(first, second, first.peak + second.peak).empty());
  EXPECT_FALSE(starts_over(first, second, first.peak + second.peak - Bytes{1}).empty());
}

TEST(Together, ACurveIsWhatTheBusiestDeviceHeld) {
  const auto run = Recorded(2).allocate(5, 1, 0).allocate(9, 1, 1).allocate(2, 2, 1).free(9, 1, 1).recording();
  const Curve found = curve_of(run);
  EXPECT_EQ(found.peak, Bytes{11});
  ASSERT_EQ(found.points.size(), 3u);
  EXPECT_EQ(found.points[1].bytes, 11u);
  EXPECT_EQ(found.points[2].bytes, 2u);
  EXPECT_EQ(found.length, 3'000'000'001);
}

TEST(Together, ALongRunIsSimplifiedByItsMaximum) {
  std::mt19937 random(3);
  Recorded run;
  for (int step = 0; step < 20'000; ++step) {
    const auto size = static_cast<std::int64_t>(1 + random() % 1000);
    run.allocate(size).free(size);
  }
  const auto recording = run.recording();
  const Curve found = curve_of(recording);
  EXPECT_TRUE(found.is_simplified);
  EXPECT_LE(found.points.size(), kMostPoints);
  std::int64_t sum = 0;
  for (const Event& event : recording.events()) {
    sum += event.charged;
    if (event.time % 77'000'000'000 == 0) {
      EXPECT_GE(held(found, event.time), static_cast<std::uint64_t>(sum));
    }
  }
}

TEST(Together, CopiesFitAlwaysOftenOrNever) {
  // A short peak of 10, else 2: two always fit on 20, and several when their peaks do not meet.
  const Curve run = curve({{0, 2}, {500, 10}, {510, 2}}, 1000);
  const Copies copies = copies_on(run, Bytes{20});
  EXPECT_EQ(copies.always, 2u);
  ASSERT_GE(copies.often.size(), 3u);
  EXPECT_GT(copies.often[0], 0.9);
  EXPECT_LT(copies.often.back(), copies.often[0]);
  EXPECT_LE(copies.often.size(), 8u) << "ten hold 20 beside no peak";
  EXPECT_EQ(copies_on(run, Bytes{9}).always, 0u);
  EXPECT_TRUE(copies_on(curve({{0, 10}}, 1000), Bytes{25}).often.empty());
}

}  // namespace
}  // namespace ration::trace
