// Sums are what a model of ten lines says, whatever comes: hour borders, gaps, clocks set back, restarts.
#include <random>

#include "history_fixture.hpp"

namespace ration::history {
namespace {

TEST_F(HistoryTest, WhatIsHeldAtASampleCountsUntilTheNextOne) {
  History history = open();
  ASSERT_EQ(*history.record(sample_at(kStart, {workload(1, "train", 1_GiB)})), Recorded::kFirst);
  ASSERT_EQ(*history.record(sample_at(kStart + 1000, {workload(1, "train", 7_GiB)})), Recorded::kHeld);
  ASSERT_EQ(*history.record(sample_at(kStart + 1500)), Recorded::kHeld);
  ASSERT_TRUE(history.commit());
  const auto report = reader().usage(whole_window());
  ASSERT_TRUE(report);
  const ReportRow* row = find_row(*report, "nlp");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(byte_seconds(row->used), std::to_string((1ull << 30) + (7ull << 30) / 2));
  EXPECT_EQ(byte_seconds(row->limited), std::to_string((10ull << 30) * 3 / 2));
  EXPECT_EQ(report->to, kStart + 1500) << "as far as it is recorded";
  EXPECT_TRUE(report->adds_up);
}

TEST_F(HistoryTest, WhatARunHeldCountsNoLongerThanItRan) {
  History history = open();
  ASSERT_TRUE(history.record(sample_at(kStart, {workload(1, "train", 1_GiB), workload(2, "other", 2_GiB)})));
  WorkloadSample over = workload(1, "train", 0_B);
  over.ended = kStart + 400;
  ASSERT_EQ(*history.record(sample_at(kStart + 500, {over, workload(2, "other", 2_GiB)})), Recorded::kHeld);
  ASSERT_EQ(*history.record(sample_at(kStart + 1000, {workload(2, "other", 2_GiB)})), Recorded::kHeld);
  ASSERT_TRUE(history.commit());
  auto question = whole_window();
  question.by = By::kWorkload;
  const auto report = reader().usage(question);
  ASSERT_TRUE(report);
  EXPECT_EQ(byte_seconds(find_row(*report, "nlp/train")->used), seconds(1_GiB, 400));
  EXPECT_EQ(byte_seconds(find_row(*report, "nlp/train")->limited), seconds(10_GiB, 400)) << "nor is its limit kept on";
  EXPECT_EQ(byte_seconds(find_row(*report, "nlp/other")->used), seconds(2_GiB, 1000));
  EXPECT_TRUE(report->adds_up);
}

TEST_F(HistoryTest, ALongStretchIsAGapAndChargedToNobody) {
  History history = open();
  ASSERT_TRUE(history.record(sample_at(kStart, {workload(1, "train", 1_GiB)})));
  EXPECT_EQ(*history.record(sample_at(kStart + 1501, {workload(1, "train", 1_GiB)})), Recorded::kGap);
  ASSERT_TRUE(history.commit());
  const auto report = reader().usage(whole_window());
  ASSERT_TRUE(report);
  EXPECT_EQ(byte_seconds(find_row(*report, "nlp")->used), "0");
  EXPECT_EQ(byte_seconds(find_row(*report, "(not recorded)")->charged), seconds(40_GiB, 1501));
  ASSERT_EQ(report->gaps.size(), 1u);
  EXPECT_EQ(report->gaps[0].from, kStart);
  EXPECT_EQ(report->gaps[0].to, kStart + 1501);
  EXPECT_TRUE(report->adds_up);
}

TEST_F(HistoryTest, AClockSetBackCountsNothingTwice) {
  History history = open();
  const auto held = [&](TimeMs time) { return *history.record(sample_at(time, {workload(1, "train", 1_GiB)})); };
  held(kStart), held(kStart + 1000);
  EXPECT_EQ(held(kStart + 200), Recorded::kClockBack);
  EXPECT_EQ(held(kStart + 700), Recorded::kClockBack);
  EXPECT_EQ(held(kStart + 1700), Recorded::kHeld);
  ASSERT_TRUE(history.commit());
  const auto report = reader().usage(whole_window());
  EXPECT_EQ(byte_seconds(find_row(*report, "nlp")->used), seconds(1_GiB, 1700));
  EXPECT_TRUE(report->adds_up);
}

TEST_F(HistoryTest, ASampleThatCannotBeIsRefusedAndChangesNothing) {
  History history = open();
  ASSERT_TRUE(history.record(sample_at(kStart, {workload(1, "train", 1_GiB)})));
  auto wrong = sample_at(kStart + 500, {workload(1, "train", Bytes{std::uint64_t{1} << 50})});
  ASSERT_FALSE(history.record(wrong));
  EXPECT_EQ(history.record(wrong).error().id, "E1918");
  wrong.workloads[0] = workload(1, "train", 1_GiB);
  wrong.workloads[0].device = 3;
  EXPECT_FALSE(history.record(wrong));
  ASSERT_TRUE(history.record(sample_at(kStart + 1000, {})));
  ASSERT_TRUE(history.commit());
  EXPECT_EQ(byte_seconds(find_row(*reader().usage(whole_window()), "nlp")->used), seconds(1_GiB, 1000));
}

TEST_F(HistoryTest, ADeviceThatWasAwayIsCountedOnlyWhileItWasThere) {
  History history = open();
  const auto both = std::vector{device("GPU-0"), device("GPU-1", 80_GiB)};
  ASSERT_TRUE(history.record(sample_at(kStart, {}, both)));
  ASSERT_TRUE(history.record(sample_at(kStart + 1000, {}, {device("GPU-0")})));
  ASSERT_TRUE(history.record(sample_at(kStart + 2000, {}, {device("GPU-0")})));
  ASSERT_TRUE(history.record(sample_at(kStart + 3000, {}, both)));
  ASSERT_TRUE(history.record(sample_at(kStart + 3500, {}, both)));
  ASSERT_TRUE(history.commit());
  const auto report = reader().usage(whole_window());
  EXPECT_EQ(report->capacity, ByteTime(__int128{(40_GiB).count()} * 3500 + __int128{(80_GiB).count()} * 1500));
  EXPECT_TRUE(report->adds_up);
}

// The model: for each (hour, run, device) what it used and was limited to, and the devices' capacity and gaps.
struct Model {
  using Key = std::tuple<std::int64_t, std::uint64_t, std::string>;
  std::map<Key, __int128> used, limited, held;
  __int128 capacity = 0, gap = 0, ungoverned = 0, driver = 0;
  Sample last;
  TimeMs mark = -1;

  void take(const Sample& now, TimeMs longest) {
    const TimeMs time = now.time_ns / 1'000'000;
    for (TimeMs ms = mark; mark >= 0 && ms < time; ++ms) {
      for (const auto& device : last.devices) {
        capacity += device.capacity.count();
        if (time - mark > longest) gap += device.capacity.count();
        if (time - mark > longest) continue;
        ungoverned += device.ungoverned.count(), driver += device.unexplained.count();
      }
      for (const auto& run : last.workloads) {
        if (time - mark > longest) break;
        const Key key{ms / kHourMs, run.run.number, last.devices[run.device].uuid};
        used[key] += run.used.count();
        limited[key] += std::min(run.limit, last.devices[run.device].capacity).count();
        held[key] += std::max(run.used, run.guarantee).count();
      }
    }
    last = now;
    mark = std::max(mark, time);
  }
};

void compare(const Model& model, Reader reader) {
  for (const auto& [basis, expected] : {std::pair{Basis::kUsed, &model.used},
                                        {Basis::kLimit, &model.limited},
                                        {Basis::kMaxUsedGuarantee, &model.held}}) {
    const auto charges = reader.charges({kStart, kStart + 400 * kDayMs}, Slice::kWhole, basis);
    ASSERT_TRUE(charges);
    EXPECT_TRUE(charges->consistent);
    std::map<std::pair<std::uint64_t, std::string>, __int128> sums, got;
    for (const auto& [key, value] : *expected) sums[{std::get<1>(key), std::get<2>(key)}] += value;
    std::map<Kind, __int128> kinds;
    __int128 all = 0;
    for (const auto& line : charges->lines) {
      all += line.charged.byte_ms();
      if (line.kind == Kind::kGoverned)
        got[{static_cast<std::uint64_t>(charges->runs.at(line.run).number), charges->devices.at(line.device).uuid}] +=
            line.charged.byte_ms();
      else
        kinds[line.kind] += line.charged.byte_ms();
    }
    std::erase_if(got, [](const auto& entry) { return entry.second == 0; });
    std::erase_if(sums, [](const auto& entry) { return entry.second == 0; });
    EXPECT_TRUE(got == sums);
    EXPECT_TRUE(charges->capacity == ByteTime{model.capacity});
    EXPECT_TRUE(kinds[Kind::kGap] == model.gap);
    EXPECT_TRUE(kinds[Kind::kUngoverned] == model.ungoverned);
    EXPECT_TRUE(kinds[Kind::kDriver] == model.driver);
    EXPECT_TRUE(all == model.capacity) << "the lines add up to capacity x time";
  }
}

TEST_F(HistoryTest, RandomSamplesAgreeWithASimpleModel) {
  constexpr TimeMs kMaxStep = 1500;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    std::filesystem::remove(path_), std::filesystem::remove(path_ + "-wal"), std::filesystem::remove(path_ + "-shm");
    std::mt19937 random(seed);
    Model model;
    std::optional<History> history{open({kMaxStep, seed % 2 == 0})};
    // Just before an hour's end, so that borders are met.
    TimeMs time = kStart + kHourMs - 20'000;
    for (int step = 0; step < 300; ++step) {
      switch (random() % 24) {
        case 0:
          time += 10'000 + random() % 5000;  // a gap
          break;
        case 1:
          time -= random() % 3000;  // the clock is set back
          break;
        default:
          time += random() % kMaxStep;
      }
      Sample sample;
      sample.time_ns = time * 1'000'000 + random() % 1'000'000;
      for (int index = 0; index < 2; ++index) {
        if (index == 1 && random() % 10 == 0) continue;
        DeviceSample now = device("GPU-" + std::to_string(index), index == 0 ? 40_GiB : 79_GiB);
        now.ungoverned = Bytes{random() % (1u << 30)}, now.unexplained = Bytes{random() % (1u << 28)};
        sample.devices.push_back(now);
      }
      for (std::uint64_t run = 1; run <= 5; ++run) {
        if (random() % 3 == 0) continue;
        WorkloadSample now = workload(run, "w" + std::to_string(run % 3), Bytes{random() % (3u << 30)});
        now.limit = random() % 4 == 0 ? kUnlimited : Bytes{random() % (std::uint64_t{4} << 30)};
        now.guarantee = Bytes{random() % (std::uint64_t{4} << 30)};
        now.device = random() % sample.devices.size();
        sample.workloads.push_back(now);
      }
      ASSERT_TRUE(history->record(sample));
      model.take(sample, kMaxStep);
      if (random() % 5 == 0) {
        ASSERT_TRUE(history->commit());
      }
      if (random() % 40 == 0) {
        ASSERT_TRUE(history->commit());
        history.reset();
        history.emplace(open({kMaxStep, seed % 2 == 0}));
      }
    }
    ASSERT_TRUE(history->commit());
    history.reset();
    compare(model, reader());
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Amounts, AreWrittenWithoutRounding) {
  EXPECT_EQ(byte_seconds(ByteTime{0}), "0");
  EXPECT_EQ(byte_seconds(ByteTime{1}), "0.001");
  EXPECT_EQ(byte_seconds(ByteTime{-1500}), "-1.5");
  const ByteTime large{(__int128{1} << 100) + 7};
  EXPECT_EQ(byte_seconds(large), "1267650600228229401496703205.383");
  EXPECT_EQ(byte_seconds(ByteTime{123'456}), "123.456");
  EXPECT_EQ(rfc3339(kStart + 123), "2026-01-05T00:00:00.123Z");
  EXPECT_EQ(rfc3339(month_start(2026, 13)), "2027-01-01T00:00:00.000Z");
}

}  // namespace
}  // namespace ration::history
