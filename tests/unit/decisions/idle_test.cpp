#include "node/residency/idle.hpp"

#include <gtest/gtest.h>

namespace ration::node {
namespace {

using namespace ration::literals;

constexpr std::uint64_t kSeconds = 1'000'000'000, kMinutes = 60 * kSeconds;

TEST(IdleWatch, AnswersOnceWhenNothingHappenedForLongEnough) {
  IdleWatch watch;
  const IdlePolicy policy{1, {{30 * kMinutes, IdleAction::kTrim}}};
  const IdleObservation facts{"jup", 5_GiB, 10 * kMinutes, 0};
  EXPECT_FALSE(watch.decide(facts, policy, 39 * kMinutes));
  const auto decision = watch.decide(facts, policy, 57 * kMinutes);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->action, IdleAction::kTrim);
  EXPECT_EQ(decision->reason, "no memory allocated or freed, and no computation, for 47m 00s");
  EXPECT_FALSE(watch.decide(facts, policy, 58 * kMinutes)) << "answered already";
  EXPECT_EQ(watch.idle_ns("jup", 58 * kMinutes), 48 * kMinutes);
  EXPECT_FALSE(watch.idle_ns("nobody", 0));
  EXPECT_FALSE(watch.decide({"jup", 5_GiB, 60 * kMinutes, 0}, policy, 60 * kMinutes));
  EXPECT_TRUE(watch.decide({"jup", 5_GiB, 60 * kMinutes, 0}, policy, 90 * kMinutes)) << "another idle time";
}

TEST(IdleWatch, WhoComputesIsNotIdleHoweverStillItsMemory) {
  IdleWatch watch;
  const IdlePolicy policy{1, {{30 * kMinutes, IdleAction::kSuspend}}};
  for (std::uint64_t minute = 0; minute < 300; ++minute)
    EXPECT_FALSE(watch.decide({"train", 5_GiB, 0, minute % 20 == 0 ? 97 : 1}, policy, minute * kMinutes));
}

TEST(IdleWatch, NobodyIsSuspendedWhoMayBeComputing) {
  IdleWatch watch;
  const IdlePolicy policy{1, {{30 * kMinutes, IdleAction::kSuspend}}};
  const auto unknown = watch.decide({"a", 5_GiB, 0, std::nullopt}, policy, 31 * kMinutes);
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->action, IdleAction::kReport);
  EXPECT_NE(unknown->reason.find("does not know whether the workload computes, so the workload is not suspended"),
            std::string::npos);
  EXPECT_EQ(watch.decide({"b", 5_GiB, 0, 0}, policy, 31 * kMinutes)->action, IdleAction::kSuspend);
  EXPECT_EQ(watch.decide({"c", 0_GiB, 0, 0}, policy, 31 * kMinutes)->action, IdleAction::kReport);
}

TEST(IdleWatch, WhatIsGivenBackOnRequestIsNoWorkAndTheSecondStepFollows) {
  IdleWatch watch;
  const IdlePolicy policy{1, {{30 * kMinutes, IdleAction::kTrim}, {60 * kMinutes, IdleAction::kSuspend}}};
  EXPECT_EQ(watch.decide({"jup", 5_GiB, 0, 0}, policy, 30 * kMinutes)->action, IdleAction::kTrim);
  const std::uint64_t gave_back = 30 * kMinutes + kSeconds;
  for (std::uint64_t now = gave_back; now < 60 * kMinutes; now += kMinutes)
    EXPECT_FALSE(watch.decide({"jup", 4_GiB, gave_back, 0}, policy, now));
  EXPECT_EQ(watch.idle_ns("jup", 59 * kMinutes), 59 * kMinutes);
  EXPECT_EQ(watch.decide({"jup", 4_GiB, gave_back, 0}, policy, 60 * kMinutes)->action, IdleAction::kSuspend);
  EXPECT_FALSE(watch.decide({"jup", 4_GiB, gave_back, 0}, policy, 90 * kMinutes)) << "all steps are taken";
}

TEST(IdleWatch, WhoWorksAfterATrimBeginsAgainWithTheFirstStep) {
  IdleWatch watch;
  const IdlePolicy policy{1, {{30 * kMinutes, IdleAction::kTrim}, {60 * kMinutes, IdleAction::kSuspend}}};
  EXPECT_EQ(watch.decide({"jup", 5_GiB, 0, 0}, policy, 30 * kMinutes)->action, IdleAction::kTrim);
  EXPECT_FALSE(watch.decide({"jup", 5_GiB, 0, 0}, policy, 30 * kMinutes + kTrimTime));
  const std::uint64_t worked = 30 * kMinutes + kTrimTime + 1;
  EXPECT_FALSE(watch.decide({"jup", 4_GiB, worked, 0}, policy, worked));
  EXPECT_FALSE(watch.decide({"jup", 4_GiB, worked, 0}, policy, 60 * kMinutes));
  EXPECT_EQ(watch.decide({"jup", 4_GiB, worked, 0}, policy, worked + 30 * kMinutes)->action, IdleAction::kTrim);
}

}  // namespace
}  // namespace ration::node
