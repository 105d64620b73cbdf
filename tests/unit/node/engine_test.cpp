// The engine with books, devices and a clock that this test invents: a day passes in a second.
#include "invented_node.hpp"
#include "node/limits/limits_requests.hpp"

namespace ration::node {
namespace {

constexpr std::uint64_t kDay = 24 * 3600 * kSecond;

class EngineTest : public InventedNode {};

TEST_F(EngineTest, DevicesThatAreLostAreToldOnceAndOnceMoreAfterTheyWereBack) {
  start();
  EXPECT_EQ(count(tick(), "daemon"), 0U);
  is_lost_ = true;
  EXPECT_EQ(count(tick(), "daemon"), 1U);
  EXPECT_EQ(count(tick(), "daemon"), 0U);
  EXPECT_FALSE(engine_->snapshot().machine_problem.empty());
  is_lost_ = false;
  EXPECT_EQ(count(tick(), "daemon"), 0U);
  EXPECT_TRUE(engine_->snapshot().machine_problem.empty());
  is_lost_ = true;
  EXPECT_EQ(count(tick(), "daemon"), 1U);
}

TEST_F(EngineTest, WhoIsInNoBookIsToldAtTheSecondTickOnceAndUnsettledInBetween) {
  start();
  (void)tick();
  device_.processes = {{::getpid(), 2_GiB}};
  device_.free = 14_GiB;
  EXPECT_EQ(count(tick(), "ungoverned"), 0U) << "its book may have been made since it was read";
  EXPECT_TRUE(engine_->is_unsettled());
  EXPECT_EQ(count(tick(), "ungoverned"), 1U);
  EXPECT_EQ(engine_->snapshot().devices.front().ungoverned, 2_GiB);
  for (int again = 0; again < 100; ++again) EXPECT_EQ(count(tick(), "ungoverned"), 0U);
  device_.processes->clear();
  (void)tick();
  device_.processes = {{::getpid(), 2_GiB}};
  EXPECT_EQ(count(tick(), "ungoverned"), 0U);
  EXPECT_EQ(count(tick(), "ungoverned"), 1U) << "it was gone, and came again";
}

TEST_F(EngineTest, AProgramThatStartsWhileTheDriverIsAskedIsGoverned) {
  bool starts = false;
  options_.query_devices = [&]() -> Result<machine::Machine> {
    if (std::exchange(starts, false)) {
      Program& program = run("train", 4_GiB);
      EXPECT_TRUE(program.take(2_GiB));
      driver_sees({{&program, 2_GiB}});
    }
    machine::Machine machine;
    machine.devices.push_back(device_);
    return machine;
  };
  start();
  (void)tick();
  starts = true;
  (void)tick();
  EXPECT_TRUE(engine_->snapshot().ungoverned.empty());
  EXPECT_EQ(engine_->snapshot().devices.front().governed, 2_GiB);
}

TEST_F(EngineTest, ADayOfMemoryThatNobodyHasIsToldOnce) {
  start();
  device_.free = 12_GiB;
  std::size_t told = 0;
  const std::uint64_t end = now_ns_ + kDay;
  while (now_ns_ < end) {
    now_ns_ += 29 * kTick;
    told += count(tick(), "orphaned");
  }
  EXPECT_EQ(told, 1U);
  EXPECT_EQ(engine_->snapshot().devices.front().orphaned, 4_GiB);
}

TEST(AllowedTenants, OfOneUserAsManyAreKnownAsItCanHaveBooks) {
  AllowedTenants allowed;
  allowed.add(2, "nlp");
  for (std::size_t number = 0; number <= Registry::kMaxBooks; ++number) allowed.add(1, std::to_string(number));
  EXPECT_FALSE(allowed.has(1, "0"));
  EXPECT_TRUE(allowed.has(1, std::to_string(Registry::kMaxBooks)));
  EXPECT_TRUE(allowed.has(2, "nlp"));
}

TEST_F(EngineTest, WhatNobodyRunsCannotBeChanged) {
  start();
  (void)tick();
  Events events;
  LimitRequest request;
  request.workload = "train";
  request.limit = "1GiB";
  const auto changed =
      change_workload(engine_->subjects().limit_subjects(engine_->moment()), request, {"root", 0, true}, events);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().id, "E1801");
  EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace ration::node
