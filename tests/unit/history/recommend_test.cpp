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
                           "apply:  ration run --name train --tenant nlp --limit 13.25GiB --guarantee 10.25GiB -- …"})
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
  EXPECT_NE(found->limit_reason.find("denied"), std::string::npos);
  EXPECT_EQ(found->confidence, "low");
  EXPECT_EQ(found->denials, 2u);
  EXPECT_EQ(found->checks[1].limit, 12_GiB);
  EXPECT_EQ(found->checks[1].denied, 1u) << "it was denied at 12 GiB: 12 GiB would deny it again";
}

Event denial(const std::string& id, TimeMs time, Bytes held, Bytes requested, Bytes limit) {
  Event event = plain_event("denied", "denied");
  event.time = time, event.workload = "train", event.tenant = "nlp", event.denial = id;
  event.bytes = static_cast<std::int64_t>(requested.count());
  event.why =
      "{\"used_bytes\":" + std::to_string(held.count()) + ",\"limit_bytes\":" + std::to_string(limit.count()) + "}";
  return event;
}

// Six good runs that reach 1 GiB, and two that asked for that while they held 540 MiB, at a limit of 1200 MiB.
TimeMs six_good_and_two_denied(History& history) {
  TimeMs at = kStart;
  for (std::uint64_t run = 1; run <= 8; ++run, at += 6 * kHourMs)
    past_run(history, run, at, run <= 6 ? 1_GiB : 540_MiB, run <= 6 ? 2_GiB : 1200_MiB, run <= 6 ? 0 : 1);
  for (std::uint64_t run = 7; run <= 8; ++run)
    EXPECT_TRUE(history.append(
        denial("d-" + std::to_string(run) + "-1", kStart + (run - 1) * 6 * kHourMs + 1, 540_MiB, 1_GiB, 1200_MiB)));
  EXPECT_TRUE(history.commit());
  return at;
}

TEST_F(HistoryTest, ARefusedRunNeededAtLeastWhatItHeldAndAskedFor) {
  History history = open({2 * kHourMs, false});
  const TimeMs at = six_good_and_two_denied(history);
  const auto found = reader().recommend(ask(at));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->limit, 1792_MiB) << "1564 MiB, as ration why says";
  EXPECT_EQ(found->limit_reason,
            "a denied run needed at least 1.53 GiB (1.00 GiB on top of the 540 MiB it held), rounded to 256 MiB; how "
            "much more is not known");
  EXPECT_EQ(found->denials, 2U);
  ASSERT_EQ(found->checks.size(), 3U);
  EXPECT_EQ(found->checks[0].denied, 0U);
  EXPECT_EQ(found->checks[1].limit, 1536_MiB);
  EXPECT_EQ(found->checks[1].denied, 2U) << "28 MiB too little for both";
  EXPECT_EQ(found->checks[2].limit, 1_GiB);
  const auto last = reader().last_run("nlp/train");
  ASSERT_EQ(last->notes.size(), 1U);
  EXPECT_EQ(last->notes[0],
            "It was denied memory once under a limit of 1.17 GiB: it needed at least 1.53 GiB (1.00 GiB on top of the "
            "540 MiB it held); 'ration why' explains each, or next time  ration run --limit 1.75GiB -- …");
}

TEST_F(HistoryTest, ARefusalIsOfTheRunThatHadItsNumberThen) {
  History history = open({2 * kHourMs, false});
  past_run(history, 3, kStart, 1_GiB, 2_GiB, 1);
  past_run(history, 3, kStart + kDayMs, 1_GiB, 2_GiB);  // after a boot
  ASSERT_TRUE(history.append(denial("d-3-1", kStart + 5, 1_GiB, 3_GiB, 2_GiB)));
  // Not for want of memory: a device that it was not given.
  ASSERT_TRUE(history.append(denial("d-3-1", kStart + kDayMs + 5, 0_B, 30_GiB, 0_B)));
  ASSERT_TRUE(history.commit());
  EXPECT_EQ(reader().last_run("train")->denied.known, 0);
  RecommendQuestion question = ask(kStart + 2 * kDayMs);
  question.fewest_runs = 2;
  const auto found = reader().recommend(question);
  EXPECT_EQ(found->denied.need(), 4_GiB);
  EXPECT_EQ(found->limit, 4_GiB);
  question.fewest_runs = 5;
  EXPECT_EQ(to_text(*reader().recommend(question), question.now),
            "not enough history: 2 runs (need 5) - showing the largest peak seen, 1.00 GiB; a denied run needed at "
            "least 4.00 GiB (3.00 GiB on top of the 1.00 GiB it held). Give a limit of at least 4.00 GiB, or let it "
            "run more often.\n");
}

TEST_F(HistoryTest, NoLimitGivesMoreThanTheDeviceHas) {
  History history = open({2 * kHourMs, false});
  for (std::uint64_t run = 1; run <= 5; ++run)
    past_run(history, run, kStart + static_cast<TimeMs>(run) * 6 * kHourMs, 1_GiB, 2_GiB, run == 5 ? 1 : 0);
  ASSERT_TRUE(history.append(denial("d-5-1", kStart + 30 * kHourMs + 5, 1_GiB, Bytes{~std::uint64_t{0}}, 2_GiB)));
  ASSERT_TRUE(history.commit());
  const auto found = reader().recommend(ask(kStart + 2 * kDayMs));
  EXPECT_EQ(found->limit, 1280_MiB) << "what nothing can meet says nothing about what to give";
  EXPECT_NE(found->limit_reason.find("which is more than the device's"), std::string::npos) << found->limit_reason;
  EXPECT_EQ(found->checks[0].denied, 1U) << "no limit helps that one";
  EXPECT_NE(reader().last_run("train")->notes[0].find("so no limit is enough"), std::string::npos);
  // It hides no other need of the same run.
  ASSERT_TRUE(history.append(denial("d-5-2", kStart + 30 * kHourMs + 9, 1_GiB, 3_GiB, 2_GiB)));
  ASSERT_TRUE(history.commit());
  EXPECT_EQ(reader().recommend(ask(kStart + 2 * kDayMs))->limit, 4_GiB);
  EXPECT_NE(reader().last_run("train")->notes[0].find("--limit 4GiB"), std::string::npos);
}

TEST_F(HistoryTest, WhatRunsIsSetAndWhatEndedIsRunAgain) {
  History history = open({2 * kHourMs, false});
  TimeMs at = kStart;
  for (std::uint64_t run = 1; run <= 5; ++run, at += 6 * kHourMs) past_run(history, run, at, 1_GiB, 2_GiB);
  WorkloadSample now = workload(6, "train", 1_GiB, 2_GiB);
  now.run.started = at;
  ASSERT_TRUE(history.record(sample_at(at, {now})));
  ASSERT_TRUE(history.commit());
  EXPECT_EQ(command_of(*reader().recommend(ask(at))), "ration set nlp/train --limit 1.25GiB --guarantee 1GiB");
  Event ended = plain_event("ended", "ended");  // known before the next commit
  ended.time = at + kSecondMs, ended.workload = "train", ended.tenant = "nlp";
  ASSERT_TRUE(history.append(ended));
  EXPECT_FALSE(reader().recommend(ask(at))->running);
  sql("DELETE FROM events");
  EXPECT_TRUE(reader().recommend(ask(at))->running);
  history.run_ended(now.run, at + kSecondMs, 0);
  ASSERT_TRUE(history.commit());
  EXPECT_EQ(command_of(*reader().recommend(ask(at))),
            "ration run --name train --tenant nlp --limit 1.25GiB --guarantee 1GiB -- …");
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
  EXPECT_EQ(
      to_text(*report),
      "================ nlp/train · run 7 ================\n"
      " user alice  tenant nlp  2026-01-05 05:00 → 2026-01-05 07:00Z (2h 00m)  exit 3\n"
      " NVIDIA A100-40 GPU-0\n"
      " memory, peak of limit   [███████████████░░░░░░░░░░░░░░░]  50%   8.00 GiB / 16.0 GiB\n"
      " memory, mean of limit   [███████░░░░░░░░░░░░░░░░░░░░░░░]  25%   4.00 GiB\n"
      " denials 0 · GiB·h used 8.0, limit 32.0\n"
      " pinned host memory n/a (not counted)\n"
      "Notes\n"
      " * Peak 8.00 GiB of 16.0 GiB: next time  ration run --limit 8.5GiB -- …   (1 requests of others waited or were "
      "denied meanwhile).\n");
  EXPECT_EQ(reader().last_run("nlp/nothing").error().id, "E1917");
}

}  // namespace
}  // namespace ration::history
