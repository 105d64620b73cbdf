#include "node/residency/standstill.hpp"

#include <gtest/gtest.h>

#include "base/clock.hpp"

namespace ration::node {
namespace {

using namespace ration::literals;

StandstillWorkload workload(std::string id, Bytes used, WaitsFor waits_for = WaitsFor::kNothing) {
  StandstillWorkload one;
  one.id = std::move(id);
  one.accounts = {{0, used, 0_GiB, waits_for, {}, {}}};
  return one;
}

StandstillWorkload waiter(std::string id, Bytes used) { return workload(std::move(id), used, WaitsFor::kDevice); }

/// Of ticks with the same picture, one a second, until one decides.
std::vector<StandstillDecision> decided(StandstillWatch& watch, const std::vector<StandstillWorkload>& all,
                                        std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t second = from; second <= to; ++second)
    if (auto decisions = watch.decide(all, second * kSecond); !decisions.empty()) return decisions;
  return {};
}

TEST(Standstill, WhereEverybodyWaitsTheNewestWaitLeavesAtTheSecondLook) {
  StandstillWatch watch;
  EXPECT_TRUE(watch.decide({waiter("a", 8_GiB), workload("b", 8_GiB)}, 1 * kSecond).empty());
  const std::vector<StandstillWorkload> both{waiter("a", 8_GiB), waiter("b", 8_GiB)};
  EXPECT_TRUE(watch.decide(both, 2 * kSecond).empty()) << "it may be over at once";
  const auto decisions = watch.decide(both, 3 * kSecond);
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].victim, "b");
  EXPECT_EQ(decisions[0].beneficiary, "a");
  EXPECT_EQ(decisions[0].waiting, 2U);
  EXPECT_EQ(decisions[0].freed, 8_GiB);
}

TEST(Standstill, AWaitGoesOnBetweenTwoTriesAndWhileItsProgramIsAway) {
  StandstillWatch watch;
  EXPECT_TRUE(watch.decide({waiter("a", 8_GiB), waiter("b", 8_GiB)}, 1 * kSecond).empty());
  EXPECT_EQ(decided(watch, {workload("a", 12_GiB), waiter("b", 8_GiB)}, 2, 2).at(0).victim, "b") << "it tries again";
  StandstillWorkload away = waiter("b", 8_GiB);
  away.on_device = false;
  for (const std::uint64_t second : {3U, 4U, 5U})
    EXPECT_TRUE(watch.decide({workload("a", 9_GiB), away}, second * kSecond).empty());
  EXPECT_TRUE(watch.decide({workload("a", 9_GiB), away}, 60 * kSecond).empty());
  EXPECT_EQ(decided(watch, {waiter("a", 8_GiB), waiter("b", 8_GiB)}, 61, 70).at(0).victim, "a") << "b waited longer";
}

TEST(Standstill, WhoWorksOrRestsIsNotTouchedAndMayStillEnd) {
  StandstillWatch watch;
  EXPECT_TRUE(decided(watch, {waiter("a", 8_GiB), workload("trains", 8_GiB)}, 1, 100).empty());
  StandstillWatch another;
  const std::vector<StandstillWorkload> mixed{waiter("a", 4_GiB), waiter("b", 4_GiB), workload("trains", 8_GiB)};
  EXPECT_TRUE(decided(another, mixed, 1, 10).empty()) << "the one that works may end at any moment";
  EXPECT_EQ(decided(another, mixed, 11, 12).at(0).victim, "b");
}

TEST(Standstill, ProgressOfAnybodyBeginsTheTimeAnew) {
  StandstillWatch watch;
  for (std::uint64_t second = 1; second < 60; ++second)
    EXPECT_TRUE(watch.decide({waiter("a", kGranule * second), waiter("b", 8_GiB)}, second * kSecond).empty());
}

TEST(Standstill, TheLowerPriorityLeavesAndAGuaranteeIsTakenLast) {
  StandstillWatch watch;
  std::vector<StandstillWorkload> all{waiter("a", 8_GiB), waiter("b", 8_GiB)};
  all[1].priority = 5;
  EXPECT_EQ(decided(watch, all, 1, 2).at(0).victim, "a");
  all[1].priority = 0;
  all[1].accounts[0].guarantee = 8_GiB;
  StandstillWatch another;
  all.push_back(waiter("c", 1_GiB));
  all[2].can_suspend = false;
  EXPECT_EQ(decided(another, all, 1, 2).at(0).victim, "b") << "a waits longest, and c cannot leave";
  all[2].can_suspend = true;
  EXPECT_EQ(decided(another, all, 3, 3).at(0).victim, "c");
}

TEST(Standstill, WhoWaitsForItsOwnLimitHelpsOthersButIsNotHelped) {
  StandstillWatch watch;
  EXPECT_EQ(decided(watch, {waiter("a", 8_GiB), workload("full", 8_GiB, WaitsFor::kOwnLimit)}, 1, 2).at(0).victim,
            "full");
  StandstillWatch another;
  EXPECT_TRUE(
      decided(another, {workload("a", 8_GiB, WaitsFor::kOwnLimit), workload("b", 8_GiB, WaitsFor::kOwnLimit)}, 1, 99)
          .empty());
}

TEST(Standstill, InAPoolOnlyItsMembersLeave) {
  StandstillWatch watch;
  std::vector<StandstillWorkload> all{workload("a", 2_GiB, WaitsFor::kSharedLimit),
                                      workload("b", 2_GiB, WaitsFor::kSharedLimit), workload("other", 4_GiB)};
  for (std::size_t i : {0U, 1U})
    all[i].accounts[0].shared_limit = "tenant ml", all[i].accounts[0].shared_limits = {"tenant ml"};
  all[2].accounts[0].shared_limits = {"tenant web"};
  EXPECT_EQ(decided(watch, all, 1, 2).at(0).victim, "b") << "whoever is not a member is not asked what it does";
}

TEST(Standstill, NobodyLeavesWhileMemoryIsOnItsWayAndOneAtATime) {
  StandstillWatch watch;
  std::vector<StandstillWorkload> all{waiter("a", 4_GiB), waiter("b", 4_GiB), waiter("c", 4_GiB), waiter("d", 4_GiB)};
  all[3].on_device = false;
  all[3].moving = true;
  EXPECT_TRUE(decided(watch, all, 1, 60).empty());
  all[3].moving = false;
  EXPECT_EQ(decided(watch, all, 61, 61).size(), 1U);
}

TEST(Standstill, AcrossDevicesACircleIsSeen) {
  StandstillWatch watch;
  StandstillWorkload one, other;
  one.id = "one", other.id = "other";
  one.accounts = {{0, 8_GiB, 0_GiB, WaitsFor::kNothing, {}, {}}, {1, 0_GiB, 0_GiB, WaitsFor::kDevice, {}, {}}};
  other.accounts = {{0, 0_GiB, 0_GiB, WaitsFor::kDevice, {}, {}}, {1, 8_GiB, 0_GiB, WaitsFor::kNothing, {}, {}}};
  const auto decisions = decided(watch, {one, other}, 1, 2);
  ASSERT_EQ(decisions.size(), 1U) << "the other one goes on then";
}

}  // namespace
}  // namespace ration::node
