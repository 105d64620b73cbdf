// Recommendations and the look back at one run.
#include "history_fixture.hpp"

namespace ration::history {
namespace {

RecommendQuestion ask(TimeMs now) {
  RecommendQuestion question;
  question.workload = "nlp/train", question.now = now;
  return question;
}

TEST_F(HistoryTest, TooFewRunsAreSaidToBeTooFew) {
  History history = open({2 * kHourMs, false});
  past_run(history, 1, kStart, 9_GiB, 12_GiB);
  past_run(history, 2, kStart + kDayMs, 8_GiB, 12_GiB);
  ASSERT_TRUE(history.commit());
  const auto found = reader().recommend(ask(kStart + 2 * kDayMs));
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->enough);
  EXPECT_EQ(to_text(*found, kStart + 2 * kDayMs),
            "not enough history: 2 runs (need 5) - showing the largest peak seen, 9.00 GiB. Give a limit of at least "
            "9.50 GiB, or let it run more often.\n");
  RecommendQuestion other = ask(kStart);
  other.workload = "nobody";
  EXPECT_EQ(reader().recommend(other).error().id, "E1917");
}

TEST_F(HistoryTest, ALimitComesWithItsReasonAndABackTest) {
  History history = open({2 * kHourMs, false});
  TimeMs at = kStart;
  for (std::uint64_t run = 1; run <= 20; ++run, at += 6 * kHourMs)
    past_run(history, run, at, Bytes{(10_GiB).count() + run * (128u << 20)}, 16_GiB);
  ASSERT_TRUE(history.commit());
  const auto found = reader().recommend(ask(at));
  ASSERT_TRUE(found) << found.error().what;
  EXPECT_TRUE(found->enough);
  EXPECT_EQ(found->runs, 20u);
  EXPECT_EQ(found->confidence, "good");
  EXPECT_EQ(found->peak_max, Bytes{12'800ull << 20});
  EXPECT_EQ(found->peak_p50, Bytes{11'520ull << 20});
  EXPECT_EQ(found->limit, Bytes{13'568ull << 20}) << "12800 + 640 + 2 MiB, in steps of 256";
  EXPECT_NE(found->limit_reason.find("max 12.5 GiB + 5% spread"), std::string::npos) << found->limit_reason;
  EXPECT_EQ(found->guarantee, Bytes{10'496ull << 20}) << "the level that 19 of the 20 hours were at or above";
  ASSERT_GE(found->checks.size(), 3u);
  EXPECT_EQ(found->checks[0].denied, 0u);
  EXPECT_EQ(found->checks.back().limit, Bytes{11'520ull << 20});
  EXPECT_EQ(found->checks.back().denied, 10u);
  EXPECT_EQ(found->limit_today, 16_GiB);
  EXPECT_NEAR(gib_hours(found->wasted_a_month), 2.75 * 20 * 30 / 5, 0.01) << "20 h in 5 days, 2.75 GiB too much";
  const std::string text = to_text(*found, at);
  for (const char* part : {"nlp/train - 20 runs in 5 days", "confidence: good", "→ limit 13.2 GiB",
                           "replaying 20 recorded runs at 13.2 GiB → 0 denied", "at 11.2 GiB → 10",
                           "apply:  ration set nlp/train --limit 13568MiB --guarantee 10496MiB"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_F(HistoryTest, ARefusedRunRaisesTheLimitAndLowersTheConfidence) {
  History history = open({2 * kHourMs, false});
  TimeMs at = kStart;
  for (std::uint64_t run = 1; run <= 6; ++run, at += 6 * kHourMs)
    past_run(history, run, at, run == 3 ? 12_GiB : 11_GiB, 12_GiB, run == 3 ? 2 : 0);
  ASSERT_TRUE(history.commit());
  const auto found = reader().recommend(ask(at));
  EXPECT_EQ(found->limit, 15_GiB);
  EXPECT_NE(found->limit_reason.find("refused"), std::string::npos);
  EXPECT_EQ(found->confidence, "low");
  EXPECT_EQ(found->denials, 2u);
  EXPECT_EQ(found->checks[1].limit, 12_GiB);
  EXPECT_EQ(found->checks[1].denied, 1u) << "it was refused at 12 GiB: 12 GiB would refuse it again";
}

TEST_F(HistoryTest, AFloorOrCapThatDecidesIsNamed) {
  History history = open({2 * kHourMs, false});
  TimeMs at = kStart;
  for (std::uint64_t run = 1; run <= 5; ++run, at += 6 * kHourMs) past_run(history, run, at, 10_MiB, kUnlimited);
  ASSERT_TRUE(history.commit());
  auto found = reader().recommend(ask(at));
  EXPECT_EQ(found->limit, 512_MiB);
  EXPECT_NE(found->limit_reason.find("floor"), std::string::npos);
  EXPECT_FALSE(found->limit_today) << "it had none";
  past_run(history, 6, at, Bytes{(40_GiB).count() - 1}, kUnlimited);
  ASSERT_TRUE(history.commit());
  found = reader().recommend(ask(at + kDayMs));
  EXPECT_EQ(found->limit, 40_GiB);
  EXPECT_NE(found->limit_reason.find("capped by the device's 40.0 GiB"), std::string::npos) << found->limit_reason;
}

TEST_F(HistoryTest, TheLastRunIsLookedBackAtWithNotes) {
  History history = open({2 * kHourMs, false});
  past_run(history, 1, kStart, 8_GiB, 12_GiB);
  WorkloadSample now = workload(7, "train", 4_GiB, 16_GiB);
  now.run.started = kStart + 5 * kHourMs;
  ASSERT_TRUE(history.record(sample_at(now.run.started, {now})));
  now.peak = 8_GiB;
  ASSERT_TRUE(history.record(sample_at(now.run.started + 2 * kHourMs, {now})));
  Event queued;
  queued.type = "queued", queued.workload = "big", queued.time = now.run.started + 5;
  ASSERT_TRUE(history.append(queued));
  history.run_ended(now.run, now.run.started + 2 * kHourMs + 40'000, 3);
  ASSERT_TRUE(history.commit());
  const auto report = reader().last_run("");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->run.number, 7);
  EXPECT_EQ(report->exit_code, 3);
  ASSERT_EQ(report->devices.size(), 1u);
  EXPECT_EQ(byte_seconds(report->devices[0].used), seconds(4_GiB, 2 * kHourMs));
  EXPECT_EQ(to_text(*report),
            "================ nlp/train · run 7 ================\n"
            " user alice  tenant nlp  2026-01-05 05:00 → 2026-01-05 07:00Z (2h 00m)  exit 3\n"
            " NVIDIA A100-40 GPU-0\n"
            " memory, peak of limit   [███████████████░░░░░░░░░░░░░░░]  50%   8.00 GiB / 16.0 GiB\n"
            " memory, mean of limit   [███████░░░░░░░░░░░░░░░░░░░░░░░]  25%   4.00 GiB\n"
            " denials 0 · GiB·h used 8.0, limit 32.0\n"
            "Notes\n"
            " * Peak 8.00 GiB of 16.0 GiB: next time  ration run --limit 8704MiB  (1 requests of others waited or were "
            "refused meanwhile).\n");
  EXPECT_EQ(reader().last_run("nlp/nothing").error().id, "E1917");
}

}  // namespace
}  // namespace ration::history
