// The engine with books, devices and a clock that this test invents: a day passes in a second.
#include "node/engine.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "ledger/store.hpp"
#include "node/commands/limits.hpp"

namespace ration::node {
namespace {

using namespace literals;

constexpr std::uint64_t kTick = 1'000'000'000, kDay = 24 * 3600 * kTick;  // nanoseconds

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    char pattern[] = "/tmp/ration-engine-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    device_.uuid = "GPU-01000000-0000-0000-0000-000000000000";
    device_.bytes = {1};
    device_.name = "invented";
    device_.total = 16_GiB;
    device_.free = 16_GiB;
    device_.reserved = Bytes{0};
    device_.processes.emplace();
  }
  ~EngineTest() override { std::filesystem::remove_all(folder_); }

  void start(config::Configuration configuration = {}) {
    NodeOptions options;
    options.simulated = true;
    options.query_devices = [this] {
      machine::Machine machine;
      machine.devices.push_back(device_);
      return is_lost_ ? Result<machine::Machine>(fail("E1403", "the driver does not answer.")) : machine;
    };
    engine_ = std::make_unique<Engine>(std::move(options), std::move(configuration));
    ASSERT_TRUE(engine_->adopt(folder_, ::getuid()));
  }

  std::vector<history::Event> tick() { return engine_->tick(now_ns_ += kTick); }

  static std::size_t count(const std::vector<history::Event>& events, const std::string& type) {
    return static_cast<std::size_t>(
        std::count_if(events.begin(), events.end(), [&](const history::Event& event) { return event.type == type; }));
  }

  std::string folder_;
  machine::Device device_;
  bool is_lost_ = false;
  std::uint64_t now_ns_ = 1'700'000'000 * kTick;
  std::unique_ptr<Engine> engine_;
};

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

TEST_F(EngineTest, WhatNobodyRunsCannotBeChanged) {
  start();
  (void)tick();
  std::vector<history::Event> events;
  LimitRequest request;
  request.workload = "train";
  request.limit = "1GiB";
  const auto changed = change_workload(engine_->state(), request, {"root", 0, true}, events);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().id, "E1801");
  EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace ration::node
