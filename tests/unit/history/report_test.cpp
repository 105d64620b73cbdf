// Reports by anything: every line, every basis, every way to share the idle rest adds up.
#include <random>

#include "history_fixture.hpp"

namespace ration::history {
namespace {

// Two tenants on one device of 40 GiB for ten hours: vision promises more than the device has.
void ten_hours(History& history) {
  for (int hour = 0; hour <= 10; ++hour) {
    Sample sample = sample_at(kStart + hour * kHourMs,
                              {workload(1, "train", 8_GiB, 16_GiB, 12_GiB), workload(2, "serve", 10_GiB, 30_GiB)});
    sample.workloads[0].labels = "exp=42,team=x";
    sample.workloads[1].tenant = "vision", sample.workloads[1].user = "=svc";
    sample.workloads[1].denials = hour >= 3 ? 2 : 0;
    sample.workloads[1].peak = hour == 3 ? 11_GiB : 10_GiB;
    sample.devices[0].ungoverned = 4_GiB, sample.devices[0].unexplained = 1_GiB;
    ASSERT_TRUE(history.record(sample));
  }
  ASSERT_TRUE(history.commit());
}

TEST_F(HistoryTest, EveryLineOfAReportIsThereAndTheyAddUp) {
  History history = open({2 * kHourMs, false});
  ten_hours(history);
  const auto report = reader().usage(whole_window());
  ASSERT_TRUE(report);
  ASSERT_EQ(report->rows.size(), 5u);
  EXPECT_EQ(report->rows[0].name, "vision") << "the largest first";
  EXPECT_EQ(byte_seconds(report->rows[0].charged), seconds(10_GiB, 10 * kHourMs));
  EXPECT_EQ(report->rows[0].denials, 2);
  EXPECT_EQ(report->rows[0].peak, static_cast<std::int64_t>((11_GiB).count()));
  EXPECT_DOUBLE_EQ(*report->rows[0].efficiency, 1.0 / 3);
  EXPECT_EQ(byte_seconds(report->rows[1].charged), seconds(8_GiB, 10 * kHourMs));
  EXPECT_EQ(byte_seconds(find_row(*report, "(ungoverned)")->charged), seconds(4_GiB, 10 * kHourMs));
  EXPECT_EQ(byte_seconds(find_row(*report, "(driver's own)")->charged), seconds(1_GiB, 10 * kHourMs));
  EXPECT_EQ(byte_seconds(find_row(*report, "(idle, not held)")->charged), seconds(17_GiB, 10 * kHourMs));
  EXPECT_EQ(byte_seconds(report->sum), seconds(40_GiB, 10 * kHourMs));
  EXPECT_TRUE(report->adds_up);
}

TEST_F(HistoryTest, PromisesBeyondTheDeviceAreSaidNotHidden) {
  History history = open({2 * kHourMs, false});
  ten_hours(history);
  const auto report = reader().usage(whole_window(Basis::kLimit));
  EXPECT_EQ(byte_seconds(find_row(*report, "vision")->charged), seconds(30_GiB, 10 * kHourMs));
  const ReportRow* twice = find_row(*report, "(charged twice)");
  ASSERT_NE(twice, nullptr);
  EXPECT_TRUE(twice->charged == ByteTime{-__int128{(11_GiB).count()} * 10 * kHourMs}) << "16+30+4+1 of 40 GiB";
  EXPECT_EQ(find_row(*report, "(idle, not held)"), nullptr);
  EXPECT_TRUE(report->adds_up);
  const auto larger = reader().usage(whole_window(Basis::kMaxUsedGuarantee));
  EXPECT_EQ(byte_seconds(find_row(*larger, "nlp")->charged), seconds(12_GiB, 10 * kHourMs));
  EXPECT_EQ(byte_seconds(find_row(*larger, "nlp")->used), seconds(8_GiB, 10 * kHourMs)) << "used is shown beside it";
  const auto peak = reader().usage(whole_window(Basis::kPeak));
  EXPECT_TRUE(peak->adds_up);
  EXPECT_EQ(byte_seconds(find_row(*peak, "vision")->charged),
            byte_seconds(ByteTime{__int128{(10_GiB).count()} * 9 * kHourMs + __int128{(11_GiB).count()} * kHourMs}));
}

TEST_F(HistoryTest, AReportCanBeMadeByAnything) {
  History history = open({2 * kHourMs, false});
  ten_hours(history);
  for (const auto& [by, name] : {std::pair{"tenant", "nlp"},
                                 {"user", "=svc"},
                                 {"workload", "vision/serve"},
                                 {"label:team", "x"},
                                 {"label:team", "(without team)"},
                                 {"label:exp", "42"},
                                 {"gpu", "GPU-0"},
                                 {"day", "2026-01-05"}}) {
    ReportQuestion question = whole_window();
    ASSERT_TRUE(parse_by(by, question));
    EXPECT_EQ(name_of_by(question), by);
    const auto report = reader().usage(question);
    ASSERT_TRUE(report);
    EXPECT_NE(find_row(*report, name), nullptr) << by;
    EXPECT_TRUE(report->adds_up) << by;
    EXPECT_EQ(byte_seconds(report->sum), seconds(40_GiB, 10 * kHourMs)) << by;
  }
  ReportQuestion question;
  EXPECT_EQ(parse_by("label:", question).error().id, "E1916");
  EXPECT_EQ(parse_by("phase", question).error().id, "E1916");
  EXPECT_EQ(parse_basis("uses").error().id, "E1916");
  EXPECT_EQ(*parse_basis("max(used,guarantee)"), Basis::kMaxUsedGuarantee);
}

TEST_F(HistoryTest, ADeviceIsAGpuAndEachHasItsOwnIdleLine) {
  History history = open({2 * kHourMs, false});
  for (int hour = 0; hour <= 2; ++hour)
    ASSERT_TRUE(history.record(
        sample_at(kStart + hour * kHourMs, {workload(1, "train", 8_GiB)}, {device(), device("GPU-1", 16_GiB)})));
  ASSERT_TRUE(history.commit());
  ReportQuestion question = whole_window();
  ASSERT_TRUE(parse_by("device", question));
  EXPECT_EQ(question.by, By::kGpu);
  const auto report = reader().usage(question);
  ASSERT_NE(find_row(*report, "(idle, not held) GPU-0"), nullptr);
  EXPECT_EQ(byte_seconds(find_row(*report, "(idle, not held) GPU-0")->charged), seconds(32_GiB, 2 * kHourMs));
  EXPECT_EQ(byte_seconds(find_row(*report, "(idle, not held) GPU-1")->charged), seconds(16_GiB, 2 * kHourMs));
  EXPECT_EQ(find_row(*report, "(idle, not held) GPU-1")->device, "GPU-1");
  question.share_idle = ReportQuestion::ShareIdle::kEven;
  const auto shared = reader().usage(question);
  ASSERT_EQ(shared->rows.size(), 1U) << "the idle time of all cards is shared";
  EXPECT_EQ(byte_seconds(shared->rows[0].charged), seconds(56_GiB, 2 * kHourMs));
  EXPECT_TRUE(shared->adds_up);
}

TEST_F(HistoryTest, AWindowIsWholeHoursAndEndsWhereTheRecordDoes) {
  History history = open({2 * kHourMs, false});
  ten_hours(history);
  ReportQuestion question = whole_window();
  question.window = {kStart + 90 * kMinuteMs, kStart + 150 * kMinuteMs};
  const auto report = reader().usage(question);
  EXPECT_EQ(report->from, kStart + kHourMs);
  EXPECT_EQ(report->to, kStart + 3 * kHourMs);
  EXPECT_EQ(byte_seconds(report->sum), seconds(40_GiB, 2 * kHourMs));
  EXPECT_TRUE(report->adds_up);
  question.window = {kStart + 1, kStart};
  EXPECT_EQ(reader().usage(question).error().id, "E1916");
  question.window = {kStart + 50 * kDayMs, kStart + 51 * kDayMs};
  EXPECT_TRUE(reader().usage(question)->rows.empty()) << "nothing recorded there";
}

TEST_F(HistoryTest, SharedIdleTimeGoesToWhoIsChargedToTheLastUnit) {
  History history = open({2 * kHourMs, false});
  ten_hours(history);
  ReportQuestion question = whole_window();
  question.share_idle = ReportQuestion::ShareIdle::kWeighted;
  const auto weighted = reader().usage(question);
  EXPECT_EQ(find_row(*weighted, "(idle, not held)"), nullptr);
  EXPECT_TRUE(weighted->adds_up);
  EXPECT_NEAR(gib_hours(find_row(*weighted, "vision")->shared_idle), 170.0 * 10 / 18, 1e-6);
  question.share_idle = ReportQuestion::ShareIdle::kEven;
  const auto even = reader().usage(question);
  EXPECT_NEAR(gib_hours(find_row(*even, "nlp")->shared_idle), 85, 1e-6);
  EXPECT_TRUE(even->adds_up);
}

TEST_F(HistoryTest, WhatNobodyWatchedCostsNobodyAnything) {
  History history = open({2 * kHourMs, false});
  ASSERT_TRUE(history.record(sample_at(kStart, {workload(1, "w", 10_GiB)})));
  ASSERT_TRUE(history.record(sample_at(kStart + kHourMs, {workload(1, "w", 10_GiB)})));
  ASSERT_TRUE(history.record(sample_at(kStart + 6 * kHourMs, {workload(1, "w", 10_GiB)})));
  ASSERT_TRUE(history.commit());
  ReportQuestion question = whole_window();
  question.prices.general = 1'000'000'000;
  const auto report = reader().usage(question);
  EXPECT_EQ(report->cost_cents, 4000) << "one hour of 40 GiB, not six";
  std::int64_t sum = 0;
  for (const auto& row : report->rows) {
    sum += row.cost_cents;
    EXPECT_TRUE(row.kind != Kind::kGap || row.cost_cents == 0);
  }
  EXPECT_EQ(sum, report->cost_cents);
}

TEST_F(HistoryTest, PrintedCostsAddUpToThePrintedSum) {
  std::mt19937 random(5);
  History history = open({2 * kHourMs, false});
  for (int hour = 0; hour <= 30; ++hour) {
    std::vector<WorkloadSample> workloads;
    for (std::uint64_t run = 1; run <= 7; ++run) {
      workloads.push_back(workload(run, "w", Bytes{random() % (1u << 31)}));
      workloads.back().tenant = "t" + std::to_string(run);
    }
    ASSERT_TRUE(history.record(sample_at(kStart + hour * kHourMs, workloads)));
  }
  ASSERT_TRUE(history.commit());
  for (const std::int64_t price : {31'000'000L, 1L, 1'000'000'000L, 1'234'500'000'000L, 10'000'000'000'000L}) {
    for (const auto share : {ReportQuestion::ShareIdle::kNone, ReportQuestion::ShareIdle::kWeighted}) {
      ReportQuestion question = whole_window();
      question.prices.general = price;
      question.share_idle = share;
      const auto report = reader().usage(question);
      std::int64_t sum = 0;
      for (const auto& row : report->rows) sum += row.cost_cents;
      EXPECT_EQ(sum, report->cost_cents) << price;
      EXPECT_NEAR(static_cast<double>(report->cost_cents) / 100, 1200 * static_cast<double>(price) / 1e9, 0.0051)
          << "40 GiB x 30 h";
      EXPECT_TRUE(report->adds_up);
    }
  }
}

TEST_F(HistoryTest, EachTenantPaysItsOwnPrice) {
  History history = open({2 * kHourMs, false});
  for (int hour = 0; hour <= 10; ++hour) {
    auto sample = sample_at(kStart + hour * kHourMs, {workload(1, "train", 8_GiB), workload(2, "serve", 3_GiB)});
    sample.workloads[1].tenant = "vision";
    ASSERT_TRUE(history.record(sample));
  }
  ASSERT_TRUE(history.commit());
  ReportQuestion question = whole_window();
  question.prices = {1'000'000'000, {{"vision", 2'000'000'000}, {"nobody", 5}}};
  const auto by_tenant = reader().usage(question);
  EXPECT_EQ(find_row(*by_tenant, "nlp")->cost_cents, 80'00);
  EXPECT_EQ(find_row(*by_tenant, "vision")->cost_cents, 60'00);
  EXPECT_EQ(find_row(*by_tenant, "(idle, not held)")->cost_cents, 290'00) << "the general price";
  EXPECT_EQ(by_tenant->cost_cents, 430'00);
  // The prices are the tenants', however the rows are cut.
  question.by = By::kGpu;
  question.share_idle = ReportQuestion::ShareIdle::kWeighted;
  const auto by_gpu = reader().usage(question);
  EXPECT_EQ(by_gpu->cost_cents, 430'00);
  EXPECT_EQ(by_gpu->rows.front().cost_cents, 430'00);
}

TEST_F(HistoryTest, AHistoryThatContradictsItselfIsSaidToDoSo) {
  {
    History history = open({2 * kHourMs, false});
    ten_hours(history);
  }
  EXPECT_TRUE(reader().usage(whole_window())->adds_up);
  sql("UPDATE usage SET used = used + 1 WHERE run = 1 AND hour = (SELECT min(hour) FROM usage)");
  EXPECT_FALSE(reader().usage(whole_window())->adds_up);
  sql("UPDATE usage SET used = used - 1 WHERE run = 1 AND hour = (SELECT min(hour) FROM usage)");
  sql("UPDATE device_hours SET observed_ms = observed_ms + 1 WHERE hour = (SELECT min(hour) FROM usage)");
  EXPECT_FALSE(reader().usage(whole_window())->adds_up);
}

}  // namespace
}  // namespace ration::history
