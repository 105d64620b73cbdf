// Charts: maxima stay, gaps stay empty, restarts neither double nor lose points.
#include "history_fixture.hpp"

namespace ration::history {
namespace {

SeriesQuestion chart(SeriesQuestion::By by, TimeMs from, TimeMs to, std::int64_t points) {
  SeriesQuestion question;
  question.by = by, question.from = from, question.to = to, question.points = points;
  return question;
}

TEST_F(HistoryTest, APeakIsInEveryResolutionThatHoldsIt) {
  std::optional<History> history{open({15'000, true})};
  // Three days at one sample in ten seconds; once, for less than a second, far more was held.
  const TimeMs peak_at = kStart + 5 * kHourMs + 7 * kMinuteMs;
  for (TimeMs at = kStart; at <= kStart + 3 * kDayMs; at += 10'000) {
    auto sample = sample_at(at, {workload(1, "train", 1_GiB)});
    if (at == peak_at) sample.workloads[0].peak = 9_GiB;
    ASSERT_TRUE(history->record(sample));
    if (at % kHourMs == 0) {
      ASSERT_TRUE(history->commit());
    }
    if (at == kStart + 6 * kHourMs) {
      ASSERT_TRUE(history->commit());
      history.reset();
      history.emplace(open({15'000, true}));
    }
  }
  ASSERT_TRUE(history->commit());
  for (const auto& [from, to] : {std::pair{kStart, kStart + 3 * kDayMs},
                                 {peak_at - kHourMs, peak_at + kHourMs},
                                 {kStart, kStart + 6 * kHourMs}}) {
    for (const std::int64_t points : {1, 3, 50, 600, 5000}) {
      for (const auto by : {SeriesQuestion::By::kWorkload, SeriesQuestion::By::kTenant}) {
        const auto series = reader().series(chart(by, from, to, points));
        ASSERT_TRUE(series);
        ASSERT_EQ(series->lines.size(), 1u);
        const auto& line = series->lines[0];
        EXPECT_LE(line.maximum.size(), static_cast<std::size_t>(points) + 1);
        std::int64_t maximum = 0, place = -1;
        for (std::size_t bucket = 0; bucket < line.maximum.size(); ++bucket) {
          if (line.maximum[bucket].value_or(0) > maximum)
            maximum = *line.maximum[bucket], place = static_cast<std::int64_t>(bucket);
        }
        EXPECT_EQ(maximum, static_cast<std::int64_t>((9_GiB).count())) << points;
        const TimeMs begins = series->from + place * series->step;
        EXPECT_LE(begins, peak_at);
        EXPECT_GE(begins + series->step, peak_at - 10'000);
        for (const auto& average : line.average) {
          if (average) {
            EXPECT_EQ(*average, static_cast<std::int64_t>((1_GiB).count()));
          }
        }
      }
    }
  }
  EXPECT_EQ(sql("SELECT count(*) FROM points WHERE level = 0 AND slot < " +
                std::to_string((kStart + 3 * kDayMs - kHourMs) / 1000)),
            "0")
      << "seconds are kept for half an hour";
}

TEST_F(HistoryTest, TheLatestSampleIsInTheChartWhateverTheResolution) {
  History history = open({1500, true});
  for (TimeMs at = kStart; at <= kStart + 95'500; at += 500)
    ASSERT_TRUE(history.record(sample_at(at, {workload(1, "train", Bytes{static_cast<std::uint64_t>(at - kStart)})})));
  ASSERT_TRUE(history.commit());
  for (const std::int64_t points : {1, 2, 10, 1000}) {
    const auto series = reader().series(chart(SeriesQuestion::By::kTenant, kStart, kStart + 100'000, points));
    ASSERT_EQ(series->lines.size(), 1u);
    std::int64_t maximum = 0;
    for (const auto& value : series->lines[0].maximum) maximum = std::max(maximum, value.value_or(0));
    EXPECT_EQ(maximum, 95'500) << points;
  }
}

TEST_F(HistoryTest, WhatWasNotRecordedIsEmptyNeverZero) {
  History history = open({1500, true});
  const auto run = std::vector{workload(1, "train", 1_GiB)};
  for (const TimeMs at : {0, 1000, 2000, 32'000, 33'000}) ASSERT_TRUE(history.record(sample_at(kStart + at, run)));
  ASSERT_TRUE(history.commit());
  const auto series = reader().series(chart(SeriesQuestion::By::kTenant, kStart, kStart + 40'000, 40));
  ASSERT_EQ(series->step, 1000);
  const auto& line = series->lines[0];
  EXPECT_TRUE(line.maximum[1]);
  EXPECT_FALSE(line.maximum[10]);
  EXPECT_FALSE(line.average[39]);
  EXPECT_EQ(line.limit[1], static_cast<std::int64_t>((10_GiB).count()));
  ASSERT_EQ(series->gaps.size(), 1u);
  EXPECT_EQ(series->gaps[0].from, kStart + 2000);
  EXPECT_EQ(series->gaps[0].to, kStart + 32'000);
}

TEST_F(HistoryTest, LinesOfATenantAreTheSumOfItsWorkloadsAndOfADeviceWhatTheDriverSays) {
  History history = open({1500, true});
  Event denied;
  denied.time = kStart + 700, denied.type = "denied", denied.tenant = "nlp", denied.workload = "b";
  ASSERT_TRUE(history.append(denied));
  for (const TimeMs at : {0, 1000, 2000}) {
    auto sample =
        sample_at(kStart + at, {workload(1, "a", 1_GiB), workload(2, "b", 2_GiB)}, {device("GPU-0"), device("GPU-1")});
    sample.workloads[1].device = 1;
    sample.devices[1].driver_used = 5_GiB;
    ASSERT_TRUE(history.record(sample));
  }
  ASSERT_TRUE(history.commit());
  auto question = chart(SeriesQuestion::By::kTenant, kStart, kStart + 2000, 2);
  auto series = reader().series(question);
  EXPECT_EQ(series->lines[0].average[0], static_cast<std::int64_t>((3_GiB).count()));
  EXPECT_EQ(series->capacity, static_cast<std::int64_t>((80_GiB).count()));
  ASSERT_EQ(series->denials.size(), 1u);
  EXPECT_EQ(series->denials[0].name, "nlp");
  question.uuid = "GPU-1";
  EXPECT_EQ(reader().series(question)->lines[0].average[0], static_cast<std::int64_t>((2_GiB).count()));
  question.by = SeriesQuestion::By::kDevice;
  series = reader().series(question);
  ASSERT_EQ(series->lines.size(), 1u);
  EXPECT_EQ(series->lines[0].average[1], static_cast<std::int64_t>((5_GiB).count()));
  question.uuid = "GPU-7";
  EXPECT_TRUE(reader().series(question)->lines.empty());
  question.from = question.to;
  EXPECT_EQ(reader().series(question).error().id, "E1916");
}

}  // namespace
}  // namespace ration::history
