#include "node/queue/queue.hpp"

#include <gtest/gtest.h>

namespace ration::node {
namespace {

using namespace ration::literals;

constexpr std::uint64_t kMinute = 60 * kSecond;

LeaseRequest request(const std::string& id, Bytes bytes, std::uint64_t submitted, const std::string& tenant = "t") {
  LeaseRequest result;
  result.id = id;
  result.tenant = tenant;
  result.bytes = bytes;
  result.submitted_ns = submitted;
  return result;
}

/// `past`: how long its earlier runs were, the shortest first.
LeaseRequest lasting(LeaseRequest request, std::vector<std::uint64_t> past) {
  request.expected = RunLengths{past, past.back()};
  return request;
}

std::vector<std::string> names(const std::vector<LeaseRequest>& requests) {
  std::vector<std::string> all;
  for (const auto& entry : requests) all.push_back(entry.id);
  return all;
}

std::vector<std::string> granted(LeaseQueue& queue, std::uint64_t now) {
  std::vector<std::string> all;
  for (const auto& lease : queue.step(now).granted) {
    all.push_back(lease.request.id);
    queue.mark_running(lease.request.id);
  }
  return all;
}

using Names = std::vector<std::string>;

/// By number: how large, and how much of it is promised outside the queue.
Capacity devices(const std::vector<std::pair<Bytes, Bytes>>& all) {
  Capacity capacity;
  for (std::size_t gpu = 0; gpu < all.size(); ++gpu)
    capacity.set_device(static_cast<int>(gpu), all[gpu].first, all[gpu].second);
  return capacity;
}

LeaseQueue one_device(Bytes capacity = 16_GiB) {
  LeaseQueue queue;
  queue.update(devices({{capacity, 0_GiB}}));
  return queue;
}

TEST(LeaseQueue, GrantsWhatFitsAndKeepsTheRestInOrder) {
  auto queue = one_device();
  ASSERT_TRUE(queue.submit(request("a", 10_GiB, 1)));
  ASSERT_TRUE(queue.submit(request("b", 10_GiB, 2)));
  ASSERT_TRUE(queue.submit(request("c", 10_GiB, 3)));
  EXPECT_EQ(granted(queue, 10), Names{"a"});
  EXPECT_EQ(queue.position("b"), 1U);
  EXPECT_EQ(queue.position("c"), 2U);
  EXPECT_EQ(queue.capacity().free_on(0), 6_GiB);
  EXPECT_TRUE(queue.release("a"));
  EXPECT_FALSE(queue.release("a"));
  EXPECT_EQ(granted(queue, 20), Names{"b"});
}

TEST(LeaseQueue, RefusesWhatCanNeverBe) {
  auto queue = one_device();
  EXPECT_EQ(queue.submit(request("a", 17_GiB, 0)).error().id, "E1104");
  EXPECT_EQ(queue.submit(request("a", 0_GiB, 0)).error().id, "E1105");
  auto elsewhere = request("a", 1_GiB, 0);
  elsewhere.gpus = {3};
  EXPECT_EQ(queue.submit(elsewhere).error().id, "E1407");
  ASSERT_TRUE(queue.submit(request("a", 1_GiB, 0)));
  EXPECT_EQ(queue.submit(request("a", 1_GiB, 0)).error().id, "E1410");
  auto promised = request("g", 1_GiB, 0);
  promised.guarantee = 20_GiB;
  EXPECT_EQ(queue.submit(promised).error().id, "E1104") << "the guarantee has to be there as well";
}

TEST(LeaseQueue, APointOfPriorityIsAMinuteOfWaiting) {
  auto queue = one_device();
  ASSERT_TRUE(queue.submit(request("running", 16_GiB, 0)));
  granted(queue, 0);
  ASSERT_TRUE(queue.submit(request("old", 16_GiB, 0, "a")));
  auto urgent = request("urgent", 16_GiB, 9 * kMinute, "b");
  urgent.priority = 10;
  ASSERT_TRUE(queue.submit(urgent));
  auto late = request("late", 16_GiB, 11 * kMinute, "c");
  late.priority = 10;
  ASSERT_TRUE(queue.submit(late));
  EXPECT_EQ(names(queue.requests()), (Names{"urgent", "old", "late"}));
}

TEST(LeaseQueue, AHundredRequestsOfOneTenantDoNotStandBeforeTheFirstOfAnother) {
  auto queue = one_device();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(queue.submit(request("a" + std::to_string(i), 16_GiB, 0, "a")));
  ASSERT_TRUE(queue.submit(request("b", 16_GiB, kMinute / 2, "b")));
  EXPECT_EQ(queue.position("b"), 2U);
}

TEST(LeaseQueue, WhoSurelyWantsItsPlaceGoesBeforeWhoMay) {
  auto queue = one_device();
  ASSERT_TRUE(queue.submit(request("running", 16_GiB, 0)));
  granted(queue, 0);
  for (const char* id : {"may0", "may1"}) {
    auto is_changing = request(id, 16_GiB, 1 * kSecond, "a");
    is_changing.confirmed = false;
    ASSERT_TRUE(queue.submit(is_changing));
  }
  ASSERT_TRUE(queue.submit(request("own", 16_GiB, 5 * kSecond, "a")));
  ASSERT_TRUE(queue.submit(request("other", 16_GiB, 10 * kSecond, "b")));
  ASSERT_TRUE(queue.submit(request("late", 16_GiB, 12 * kSecond, "c")));
  EXPECT_EQ(names(queue.requests()), (Names{"own", "other", "may0", "may1", "late"}));
  queue.cancel("own");
  EXPECT_EQ(names(queue.requests()), (Names{"other", "may0", "may1", "late"}));
}

TEST(LeaseQueue, WhoLeavesGivesThePlaceToTheTenantsNext) {
  auto queue = one_device();
  for (const char* id : {"a0", "a1", "a2"}) ASSERT_TRUE(queue.submit(request(id, 16_GiB, 0, "a")));
  ASSERT_TRUE(queue.submit(request("b", 16_GiB, kMinute / 2, "b")));
  EXPECT_EQ(names(queue.requests()), (Names{"a0", "b", "a1", "a2"}));
  EXPECT_TRUE(queue.cancel("a0"));
  EXPECT_FALSE(queue.cancel("a0"));
  EXPECT_EQ(names(queue.requests()), (Names{"a1", "b", "a2"}));
}

TEST(LeaseQueue, ASmallOnePassesOnlyIfTheHeadIsNotDelayed) {
  auto queue = one_device();
  ASSERT_TRUE(queue.submit(lasting(request("running", 10_GiB, 0), {10 * kMinute, 30 * kMinute})));
  EXPECT_EQ(granted(queue, 0), Names{"running"});
  ASSERT_TRUE(queue.submit(request("head", 12_GiB, 1, "h")));
  ASSERT_TRUE(queue.submit(lasting(request("lengthy", 6_GiB, 2, "l"), {1 * kMinute, 11 * kMinute})));
  EXPECT_EQ(granted(queue, 3), Names{});
  EXPECT_EQ(queue.reason("lengthy")->kind, WaitReason::Kind::kBehind);
  EXPECT_EQ(queue.reason("lengthy")->behind, "head");
  EXPECT_EQ(to_text(*queue.reason("lengthy")),
            "GPU 0 has 6.00 GiB left, but they are kept for head, which is ahead in the queue and may start in 9m 59s; "
            "this run may take "
            "11m 00s");
  ASSERT_TRUE(queue.submit(lasting(request("brief", 6_GiB, 2, "b"), {1 * kMinute, 9 * kMinute})));
  const auto leases = queue.step(5).granted;
  ASSERT_EQ(leases.size(), 1U) << "gone before the head can start";
  EXPECT_EQ(leases[0].request.id, "brief");
  ASSERT_TRUE(leases[0].backfill);
  EXPECT_EQ(leases[0].backfill->head, "head");
  EXPECT_TRUE(leases[0].backfill->ends_before_head);
}

TEST(LeaseQueue, WhoseLengthIsNotKnownPassesOnlyWhereThereIsRoomForBoth) {
  auto queue = one_device();
  ASSERT_TRUE(queue.submit(request("running", 10_GiB, 0)));
  granted(queue, 0);
  ASSERT_TRUE(queue.submit(request("head", 12_GiB, 1, "h")));
  ASSERT_TRUE(queue.submit(request("wide", 5_GiB, 2, "w")));
  EXPECT_EQ(granted(queue, 3), Names{});
  EXPECT_EQ(to_text(*queue.reason("wide")),
            "GPU 0 has 6.00 GiB left, but they are kept for head, which is ahead in the queue and may start at any "
            "moment; how long this run "
            "takes is not known");
  ASSERT_TRUE(queue.submit(request("narrow", 4_GiB, 2, "n")));
  const auto leases = queue.step(4).granted;
  ASSERT_EQ(leases.size(), 1U) << "beside the head there are 4 GiB for ever";
  EXPECT_EQ(leases[0].request.id, "narrow");
  EXPECT_FALSE(leases[0].backfill->ends_before_head);
  queue.release("running");
  EXPECT_EQ(granted(queue, 5), Names{"head"});
}

TEST(LeaseQueue, ThereIsRoomForBothOnlyIfThereIsWhicheverEndsFirst) {
  auto queue = one_device(24_GiB);
  ASSERT_TRUE(queue.submit(request("one", 8_GiB, 0)));
  ASSERT_TRUE(queue.submit(request("two", 8_GiB, 0)));
  granted(queue, 0);
  ASSERT_TRUE(queue.submit(request("head", 12_GiB, 1, "h")));
  ASSERT_TRUE(queue.submit(request("late", 8_GiB, 2, "l")));
  EXPECT_EQ(granted(queue, 3), Names{}) << "when both have ended there were room for both, but not after one";
  ASSERT_TRUE(queue.submit(request("narrow", 4_GiB, 2, "n")));
  EXPECT_EQ(granted(queue, 4), Names{"narrow"});
  queue.release("two");
  EXPECT_EQ(granted(queue, 5), Names{"head"});
}

TEST(LeaseQueue, WhatRunsLongerThanEverMayEndAtAnyMomentSoNobodyPassesAnyMore) {
  auto queue = one_device();
  ASSERT_TRUE(queue.submit(lasting(request("running", 10_GiB, 0), {10 * kMinute, 20 * kMinute})));
  granted(queue, 0);
  ASSERT_TRUE(queue.submit(request("head", 12_GiB, 1, "h")));
  const auto brief = [&](const std::string& id) {
    EXPECT_TRUE(queue.submit(lasting(request(id, 6_GiB, 2, id), {2 * kMinute})));
  };
  brief("before");
  EXPECT_EQ(granted(queue, 8 * kMinute), Names{"before"});
  queue.release("before");
  brief("after");
  EXPECT_EQ(granted(queue, 9 * kMinute), Names{}) << "the running one may end in a minute";
  EXPECT_EQ(granted(queue, 10 * kMinute), Names{"after"}) << "it did not: the next that it may is in ten";
  queue.release("after");
  brief("overstayed");
  EXPECT_EQ(granted(queue, 20 * kMinute), Names{});
  EXPECT_EQ(granted(queue, 500 * kMinute), Names{});
  queue.release("running");
  EXPECT_EQ(granted(queue, 501 * kMinute).front(), "head");
}

TEST(LeaseQueue, AHeadKeepsNobodyFromDevicesThatItCannotUse) {
  LeaseQueue queue;
  queue.update(devices({{16_GiB, 0_GiB}, {8_GiB, 0_GiB}}));
  ASSERT_TRUE(queue.submit(request("running", 10_GiB, 0)));
  EXPECT_EQ(granted(queue, 0), Names{"running"});
  ASSERT_TRUE(queue.submit(request("head", 12_GiB, 1, "h")));
  ASSERT_TRUE(queue.submit(request("small", 5_GiB, 2, "s")));
  const auto leases = queue.step(3).granted;
  ASSERT_EQ(leases.size(), 1U);
  EXPECT_EQ(leases[0].gpus, std::vector<int>{1});
}

TEST(LeaseQueue, OfSeveralThatAreNeededTogetherTheFullestIsNamedAsWhatIsMissing) {
  LeaseQueue queue;
  queue.update(devices({{16_GiB, 12_GiB}, {16_GiB, 2_GiB}}));
  LeaseRequest both = request("both", 8_GiB, 0);
  both.gpus = {0, 1};
  ASSERT_TRUE(queue.submit(both));
  EXPECT_EQ(granted(queue, 1), Names{});
  EXPECT_EQ(to_text(*queue.reason("both")),
            "all GPUs are needed together, and the fullest is GPU 0: 4.00 GiB of 16.0 GiB are neither held nor "
            "promised");
}

TEST(LeaseQueue, WhoWouldNotFitEvenWithoutAnyLeaseHoldsNobodyUp) {
  auto queue = one_device();
  queue.update(devices({{16_GiB, 8_GiB}}));
  ASSERT_TRUE(queue.submit(request("large", 12_GiB, 0, "l")));
  for (int i = 0; i < 40; ++i) {
    const std::string id = "s" + std::to_string(i);
    ASSERT_TRUE(queue.submit(request(id, 8_GiB, 1, id)));
    ASSERT_EQ(granted(queue, 2), Names{id});
    queue.release(id);
  }
  EXPECT_EQ(to_text(*queue.reason("large")),
            "not enough room; GPU 0 has the most: 8.00 GiB of 16.0 GiB are neither held nor promised");
  queue.update(devices({{16_GiB, 2_GiB}}));
  EXPECT_EQ(granted(queue, 3), Names{"large"});
}

TEST(LeaseQueue, WhatIsKeptForOthersIsNotSaidToBePromisedToNobody) {
  LeaseQueue queue;
  Capacity capacity = devices({{16_GiB, 8_GiB}});
  capacity.set_tenant("research", 0, 16_GiB, 6_GiB, 0_GiB);
  queue.update(capacity);
  for (const auto& [id, bytes] : {std::pair{"more than is left", 9_GiB}, {"more than is not kept", 4_GiB}}) {
    ASSERT_TRUE(queue.submit(request(id, bytes, 1, "other")));
    EXPECT_TRUE(granted(queue, 2).empty());
    EXPECT_EQ(to_text(*queue.reason(id)), "GPU 0 has 8.00 GiB left, 6.00 GiB of it kept for research (guarantees)");
    queue.release(id);
  }
}

/// A device of 32 GiB, of which tenant `t` may hold 12 GiB; its workloads without a lease hold `promised`.
Capacity with_a_limited_tenant(Bytes promised) {
  Capacity capacity = devices({{32_GiB, promised}});
  capacity.set_tenant("t", 0, 12_GiB, 0_GiB, promised);
  return capacity;
}

TEST(LeaseQueue, ASmallOneDoesNotTakeTheTenantsRoomFromTheFirstOfItsTenant) {
  LeaseQueue queue;
  queue.update(with_a_limited_tenant(0_GiB));
  ASSERT_TRUE(queue.submit(request("runs", 5_GiB, 1)));
  ASSERT_TRUE(queue.submit(request("also", 3_GiB, 2)));
  EXPECT_EQ(granted(queue, 10), (Names{"runs", "also"}));
  ASSERT_TRUE(queue.submit(request("first", 8_GiB, 11)));
  ASSERT_TRUE(queue.submit(request("small", 3_GiB, 12)));
  ASSERT_TRUE(queue.submit(request("other", 12_GiB, 13, "u")));
  EXPECT_EQ(granted(queue, 20), Names{"other"}) << "another tenant waits for nobody";
  EXPECT_EQ(queue.reason("first")->kind, WaitReason::Kind::kTenant);
  EXPECT_EQ(to_text(*queue.reason("small")),
            "of the tenant's limit 12.0 GiB on GPU 0, 4.00 GiB are left, but they are kept for first, which is ahead "
            "in the queue");
  queue.release("runs");
  EXPECT_EQ(granted(queue, 30), Names{"first"}) << "beside the small one it would have had to wait for the other lease";
  queue.release("also");
  EXPECT_EQ(granted(queue, 40), Names{"small"});
}

TEST(LeaseQueue, WithinATenantASmallOnePassesWhereItDelaysNobody) {
  LeaseQueue queue;
  queue.update(with_a_limited_tenant(0_GiB));
  ASSERT_TRUE(queue.submit(request("runs", 6_GiB, 1)));
  EXPECT_EQ(granted(queue, 10), Names{"runs"});
  ASSERT_TRUE(queue.submit(request("first", 8_GiB, 11)));
  ASSERT_TRUE(queue.submit(request("beside", 4_GiB, 12)));
  EXPECT_EQ(granted(queue, 20), Names{"beside"}) << "when the lease ends there is room for both";
  ASSERT_TRUE(queue.submit(request("more", 2_GiB, 13)));
  EXPECT_EQ(granted(queue, 30), Names{});
  queue.update(with_a_limited_tenant(5_GiB));  // workloads without a lease: no end of a lease makes room for the first
  queue.release("beside");
  EXPECT_EQ(granted(queue, 40), Names{}) << "nothing is left";
  queue.release("runs");
  EXPECT_EQ(granted(queue, 50), Names{"more"}) << "the first cannot start, whatever ends";
}

TEST(LeaseQueue, SeveralDevicesAreGrantedTogether) {
  LeaseQueue queue;
  queue.update(devices({{16_GiB, 0_GiB}, {16_GiB, 8_GiB}}));
  auto both = request("both", 10_GiB, 0);
  both.gpus = {1, 0, 1};
  ASSERT_TRUE(queue.submit(both));
  EXPECT_EQ(granted(queue, 1), Names{});
  EXPECT_EQ(queue.reason("both")->gpu, 1) << "the one that is too full";
  queue.update(devices({{16_GiB, 0_GiB}, {16_GiB, 6_GiB}}));
  const auto leases = queue.step(2).granted;
  ASSERT_EQ(leases.size(), 1U);
  EXPECT_EQ(leases[0].gpus, (std::vector<int>{0, 1}));
  EXPECT_EQ(queue.capacity().free_on(0), 6_GiB);
  EXPECT_EQ(queue.capacity().free_on(1), 0_GiB);
}

TEST(LeaseQueue, AloneItGetsTheEmptiestDeviceAndInACrowdTheTightest) {
  LeaseQueue queue;
  queue.update(devices({{16_GiB, 8_GiB}, {16_GiB, 0_GiB}}));
  ASSERT_TRUE(queue.submit(request("a", 2_GiB, 0)));
  EXPECT_EQ(queue.step(0).granted.at(0).gpus, std::vector<int>{1});
  ASSERT_TRUE(queue.submit(request("b", 2_GiB, 1)));
  ASSERT_TRUE(queue.submit(request("c", 2_GiB, 2)));
  EXPECT_EQ(queue.step(3).granted.at(0).gpus, std::vector<int>{0});
}

TEST(LeaseQueue, ALeaseThatNobodyTakesUpGoesBack) {
  auto queue = one_device();
  ASSERT_TRUE(queue.submit(request("gone", 16_GiB, 0)));
  ASSERT_TRUE(queue.submit(request("next", 16_GiB, 0)));
  EXPECT_EQ(queue.step(kSecond).granted.size(), 1U);
  EXPECT_TRUE(queue.step(kSecond + kStartGrace - 1).lapsed.empty());
  const auto later = queue.step(kSecond + kStartGrace);
  ASSERT_EQ(later.lapsed.size(), 1U);
  EXPECT_EQ(later.lapsed[0].request.id, "gone");
  ASSERT_EQ(later.granted.size(), 1U);
  EXPECT_TRUE(queue.mark_running("next"));
  EXPECT_TRUE(queue.step(100 * kStartGrace).lapsed.empty());
}

TEST(LeaseQueue, ADeadlineEndsTheWait) {
  auto queue = one_device();
  ASSERT_TRUE(queue.submit(request("running", 16_GiB, 0)));
  granted(queue, 0);
  auto impatient = request("impatient", 16_GiB, 0);
  impatient.deadline_ns = 30 * kSecond;
  ASSERT_TRUE(queue.submit(impatient));
  EXPECT_TRUE(queue.step(29 * kSecond).expired.empty());
  EXPECT_EQ(names(queue.step(30 * kSecond).expired), Names{"impatient"});
  EXPECT_EQ(queue.waiting(), 0U);
}

TEST(LeaseQueue, TheEstimateIsTheMedianOfRealWaitsOrSaysWhyThereIsNone) {
  auto queue = one_device();
  EXPECT_FALSE(queue.estimate().median_ns);
  EXPECT_EQ(queue.estimate().unknown_reason, "0 waits are known, but an estimate needs 3");
  ASSERT_TRUE(queue.submit(request("r0", 16_GiB, 0, "r0")));
  granted(queue, 0);  // at once: no wait
  EXPECT_EQ(queue.estimate().count, 0U);
  for (int i = 1; i <= 3; ++i) {
    const auto now = static_cast<std::uint64_t>(i) * kMinute;
    const std::string id = "r" + std::to_string(i);
    ASSERT_TRUE(queue.submit(request(id, 16_GiB, now - 10 * kSecond * static_cast<unsigned>(i), id)));
    granted(queue, now - 1);
    queue.release("r" + std::to_string(i - 1));
    granted(queue, now);
  }
  EXPECT_EQ(queue.estimate().count, 3U);
  EXPECT_EQ(queue.estimate().median_ns, 20 * kSecond);
}

TEST(LeaseQueue, LeasesOfBeforeARestartAreBelieved) {
  auto queue = one_device();
  queue.restore({request("old", 12_GiB, 0), {0}, 0, true});
  ASSERT_TRUE(queue.submit(request("new", 8_GiB, 1)));
  EXPECT_EQ(granted(queue, 2), Names{});
  queue.restore({request("larger", 16_GiB, 0), {0}, 0, true});
  EXPECT_EQ(queue.capacity().free_on(0), 0_GiB);
  queue.release("larger");
  queue.release("old");
  EXPECT_EQ(queue.capacity().free_on(0), 16_GiB);
}

TEST(LeaseQueue, ADeviceThatGoesAwayIsNamed) {
  auto queue = one_device();
  auto there = request("a", 1_GiB, 0);
  there.gpus = {0};
  ASSERT_TRUE(queue.submit(there));
  queue.update({});
  EXPECT_EQ(granted(queue, 1), Names{});
  EXPECT_EQ(to_text(*queue.reason("a")), "the GPU it asked for is gone");
  queue.update(devices({{512_MiB, 0_GiB}}));
  EXPECT_EQ(queue.reason("a")->kind, WaitReason::Kind::kTooLarge);
}

}  // namespace
}  // namespace ration::node
