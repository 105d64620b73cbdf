// What a recorded run needed, from its charges alone.
#include <gtest/gtest.h>

#include <random>

#include "recording_fixture.hpp"
#include "trace/open_recording.hpp"
#include "trace/whatif/answer.hpp"

namespace ration::trace {
namespace {

DeviceCharges charges_of(const Recorded& recorded, std::optional<Bytes> limit = {}) {
  return add_up(recorded.recording(), limit).devices.at(0);
}

TEST(Charges, TheSmallestLimitIsTheMostThatWasHeldAtOnce) {
  const Recorded run = Recorded().allocate(100).allocate(50).free(100).allocate(60).allocate(45).free(45);
  const auto sums = charges_of(run);
  EXPECT_EQ(sums.peak, Bytes{155});
  EXPECT_EQ(sums.peak_time, 4'000'000'000);
  EXPECT_FALSE(charges_of(run, Bytes{155}).denied);
  const auto denied = charges_of(run, Bytes{154}).denied;
  ASSERT_TRUE(denied);
  EXPECT_EQ(denied->event, 4u);
  EXPECT_EQ(denied->charged, Bytes{45});
  EXPECT_EQ(denied->held, Bytes{110});
}

TEST(Charges, ALimitBelowOneContextDeniesTheContext) {
  const auto denied = charges_of(Recorded().add(Kind::kContextMade, 300).allocate(5), Bytes{200}).denied;
  ASSERT_TRUE(denied);
  EXPECT_EQ(denied->kind, Kind::kContextMade);
  EXPECT_EQ(denied->held, Bytes{0});
  EXPECT_EQ(denied->charged, Bytes{300});
}

TEST(Charges, ManagedMemoryCountsAndPinnedHostMemoryDoesNot) {
  EXPECT_EQ(charges_of(Recorded()
                           .allocate(100)
                           .add(Kind::kAllocate, 10, 10, 2, 0, Account::kManaged)
                           .add(Kind::kAllocate, 500, 500, 3, 0, Account::kPinnedHost))
                .peak,
            Bytes{110});
}

TEST(Charges, EachDeviceHasItsOwn) {
  const auto sums = add_up(Recorded(2).allocate(100, 1, 0).allocate(70, 1, 1).free(100, 1, 0).recording(), Bytes{80});
  EXPECT_EQ(sums.devices[0].peak, Bytes{100});
  EXPECT_EQ(sums.devices[1].peak, Bytes{70});
  EXPECT_TRUE(sums.devices[0].denied);
  EXPECT_FALSE(sums.devices[1].denied);
}

TEST(Charges, AnEventOfADeviceThatTheHeaderLacksChangesNothing) {
  EXPECT_EQ(charges_of(Recorded().allocate(100).allocate(900, 1, 7)).peak, Bytes{100});
}

// The least limit that denies nothing is found by trying every one.
TEST(Charges, OneByteLessThanTheSmallestLimitIsDenied) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Recorded run;
    std::vector<std::int64_t> live;
    for (int step = 0; step < 30; ++step) {
      if (!live.empty() && random() % 3 == 0) {
        run.free(live.back());
        live.pop_back();
      } else {
        live.push_back(1 + static_cast<std::int64_t>(random() % 50));
        run.allocate(live.back());
      }
    }
    const Bytes smallest = charges_of(run).peak;
    EXPECT_FALSE(charges_of(run, smallest).denied);
    EXPECT_TRUE(charges_of(run, smallest - Bytes{1}).denied);
  }
}

TEST(WhatIf, GradesSayWhatAnAnswerIsWorth) {
  const auto judged = [](Recorded run) { return answer(run.recording(), {})->rows.at(0); };
  EXPECT_EQ(judged(Recorded().allocate(5)).judgement.grade, Grade::kExact);
  EXPECT_EQ(judged(Recorded().allocate(5)).judgement.reason, "");
  Recorded lost, history, cut;
  lost.header().lost = 3;
  history.header().booked = false;
  cut.header().complete = false;
  EXPECT_EQ(judged(lost.allocate(5)).judgement.grade, Grade::kUnknown);
  EXPECT_TRUE(judged(lost).is_bound);
  EXPECT_EQ(judged(history.allocate(5)).judgement.grade, Grade::kUnknown);
  EXPECT_EQ(judged(cut.allocate(5)).judgement.reason, "up to the end of the recording");
}

TEST(WhatIf, ARunThatWasDeniedNeededMore) {
  const auto row = answer(Recorded().allocate(3 << 20).add(Kind::kDenied, 0, 4 << 20).recording(), {})->rows.at(0);
  EXPECT_EQ(row.judgement.grade, Grade::kUnknown);
  EXPECT_NE(row.judgement.reason.find("at least 7.00 MiB"), std::string::npos) << row.judgement.reason;
}

TEST(WhatIf, DoubtsNameWhatAProgramMayDoOtherwise) {
  const auto run = Recorded().add(Kind::kAsked, 0, 100).add(Kind::kWaited, 0).allocate(5);
  const auto answers = answer(run.recording(), {});
  EXPECT_EQ(doubts(run.recording().header(), answers->circumstances).size(), 2u);
  const auto plain = Recorded().allocate(5);
  EXPECT_TRUE(doubts(plain.recording().header(), answer(plain.recording(), {})->circumstances).empty());
}

TEST(WhatIf, AHistoryIsABound) {
  const auto recording = open_recording(RATION_SOURCE "/share/ration/traces/medium_512_inference.csv");
  ASSERT_TRUE(recording);
  const auto row = answer(**recording, {Bytes{1} * (1 << 30), {}})->rows.at(0);
  EXPECT_NEAR(static_cast<double>(row.smallest->count()) / (1 << 20), 1860.9, 0.05);
  EXPECT_TRUE(row.is_bound);
  EXPECT_TRUE(row.denied);
}

}  // namespace
}  // namespace ration::trace
