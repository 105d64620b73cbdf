// What becomes of ticks and events in the history and in the counters, and what is told of a history that cannot be
// written.
#include "node/accounting/recorder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "http/event_loop.hpp"
#include "node/events/event_text.hpp"
#include "node/http/announcer.hpp"
#include "node/http/health.hpp"

namespace ration::node {
namespace {

using namespace literals;

class RecorderTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kStart = 1'767'571'200 * kSecond;

  RecorderTest() {
    char pattern[] = "/tmp/ration-recorder-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    auto history = history::History::open(folder_ + "/history.db");
    EXPECT_TRUE(history);
    recorder_ = std::make_unique<Recorder>(std::move(*history));
    DeviceView view;
    view.device.uuid = "GPU-1", view.device.index = 1, view.device.total = 16_GiB;
    moment_.snapshot.devices.push_back(view);
  }
  ~RecorderTest() override { std::filesystem::remove_all(folder_); }

  Events take_at(double seconds) {
    moment_.snapshot.time_ns = kStart + static_cast<std::uint64_t>(seconds * 1e9);
    return recorder_->take(moment_, std::exchange(effects_, {}));
  }
  /// A run that began and ended between two ticks.
  void ended_run(Bytes limit) {
    Workload workload;
    workload.book.tenant = "nlp", workload.book.name = "short";
    workload.book.accounts.emplace_back().limit = limit;
    effects_.ended_workloads.push_back(workload);
  }
  static std::vector<std::string> texts(const Events& events) {
    std::vector<std::string> texts;
    for (const Event& event : events) texts.push_back(event.text);
    return texts;
  }
  void put_in_the_way() {
    std::filesystem::remove_all(folder_);
    std::ofstream(folder_) << "in the way";
  }

  std::string folder_;
  std::unique_ptr<Recorder> recorder_;
  Moment moment_;
  Effects effects_;
};

TEST_F(RecorderTest, AGapAndAClockThatGoesBackAreToldOnce) {
  EXPECT_TRUE(take_at(0).empty());
  EXPECT_TRUE(take_at(1).empty());
  EXPECT_TRUE(recorder_->commit().empty());
  ASSERT_EQ(take_at(61).size(), 1U);
  EXPECT_TRUE(recorder_->commit().empty());
  const Events back = take_at(31);
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back.front().text, clock_back_event(30 * kSecond).text);
  EXPECT_TRUE(take_at(32).empty()) << "it is still back";
  EXPECT_TRUE(take_at(61.5).empty());
  EXPECT_EQ(take_at(40).size(), 1U) << "again";
}

TEST_F(RecorderTest, WhatCannotBeSeenIsToldOnceAndShownUntilItIsOver) {
  const std::uint64_t before = recorder_->status().recorded_to;
  moment_.snapshot.devices[0].device.total = Bytes{history::kMaxDevice + 1};
  ASSERT_EQ(take_at(0).size(), 1U);
  EXPECT_TRUE(take_at(1).empty());
  EXPECT_TRUE(recorder_->commit().empty());
  EXPECT_NE(recorder_->status().problem, "");
  EXPECT_EQ(recorder_->status().recorded_to, before);
  moment_.snapshot.devices[0].device.total = 16_GiB;
  EXPECT_TRUE(take_at(2).empty());
  EXPECT_EQ(recorder_->status().problem, "");
}

TEST_F(RecorderTest, EventsThatCannotBeStoredHaveNoNumberUntilTheyAreStoredLate) {
  EXPECT_TRUE(take_at(0).empty());
  EXPECT_TRUE(recorder_->commit().empty());
  put_in_the_way();
  EXPECT_TRUE(recorder_->commit().empty());
  const auto records = recorder_->store({daemon_event("one")});
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records.front().id, 0);
  EXPECT_NE(records.front().time, 0);
  EXPECT_NE(recorder_->status().problem, "");
  EXPECT_TRUE(recorder_->take_late().empty());
  std::filesystem::remove(folder_);
  const Events told = recorder_->commit();
  ASSERT_EQ(told.size(), 1U) << "a new file was begun";
  EXPECT_EQ(recorder_->status().set_aside, told.front().text);
  EXPECT_EQ(recorder_->status().problem, "");
  const auto late = recorder_->take_late();
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late.front().text, records.front().text);
  EXPECT_GT(late.front().id, 0);
}

TEST_F(RecorderTest, HeldByteSecondsAreThoseOfTheSampleBefore) {
  ended_run(2_GiB);
  EXPECT_TRUE(take_at(0).empty());
  EXPECT_TRUE(recorder_->changed());
  EXPECT_TRUE(take_at(1.5).empty());
  const auto sums = recorder_->counters().byte_seconds;
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums.begin()->first, (Counters::TenantOnGpu{"nlp", 1}));
  EXPECT_EQ(sums.begin()->second.limit, 1.5 * 2 * (1U << 30));
  EXPECT_TRUE(take_at(2).empty());
  EXPECT_FALSE(recorder_->changed());
}

TEST_F(RecorderTest, EventsAreCountedByTheirFacts) {
  Event denied;
  denied.type = EventType::kWaited, denied.tenant = "nlp", denied.gpu = 1, denied.bytes = 7;
  denied.denied.emplace().waited_ns = 2 * kSecond;
  Event trimmed;
  trimmed.type = EventType::kTrimmed, trimmed.tenant = "nlp", trimmed.gpu = 1, trimmed.bytes = 5;
  Event resized;
  resized.type = EventType::kResized, resized.tenant = "nlp", resized.by = "root";
  Event violation;
  violation.type = EventType::kViolation, violation.tenant = "nlp";
  (void)recorder_->store({denied, trimmed, resized, violation, violation});
  const Counters& counters = recorder_->counters();
  const Counters::TenantOnGpu where{"nlp", 1};
  EXPECT_EQ(counters.denied.size(), 1U);
  EXPECT_EQ(counters.denied_bytes.at(where), 7U);
  EXPECT_EQ(counters.denied_after.count, 1U);
  EXPECT_EQ(counters.denied_after.seconds, 2);
  EXPECT_EQ(counters.trimmed_bytes.at(where), 5U);
  EXPECT_EQ((counters.limit_changes.at({"nlp", "root"})), 1U);
  EXPECT_EQ(counters.violations.at("nlp"), 2U);
}

TEST_F(RecorderTest, WhoFollowsIsToldOfAnEventOnceItHasANumber) {
  http::EventLoop loop;
  http::StreamOptions options;
  options.topics = {{"events", http::TopicKind::kNumbered}, {"snapshot", http::TopicKind::kLatest}};
  const CommandOptions none;
  Announcer announcer(loop, options, none);
  history::Event stored, waits;
  stored.id = 7;
  announcer.send({stored, waits});
  EXPECT_EQ(announcer.stream().newest_id(), 7U);
  waits.type = "alert";
  announcer.send_alerts("", {waits});
  EXPECT_FALSE(announcer.busy());
  announcer.send_alerts("http://127.0.0.1:1/", {stored});
  EXPECT_FALSE(announcer.busy()) << "it is no alert";
  announcer.send_alerts("http://127.0.0.1:1/", {waits});
  EXPECT_TRUE(announcer.busy());
}

TEST_F(RecorderTest, HealthSaysWhatIsWrongAndWhere) {
  const auto check = [](const nlohmann::json& health, const std::string& id) {
    for (const auto& each : health.at("checks"))
      if (each.at("id") == id) return each.at("status").get<std::string>() + ": " + each.at("text").get<std::string>();
    return std::string("none");
  };
  Counters counters;
  Health health{moment_, counters, {}, 0, 0, "/run/s", "", std::nullopt, "", "/state"};
  moment_.snapshot.driver_version = "550";
  Viewer nobody, tenant, root;
  nobody.totals_only = root.is_operator = true;
  tenant.user = 1001;
  auto answer = health_json(health, tenant);
  EXPECT_EQ(check(answer, "gpu.driver"), "ok: driver 550");
  EXPECT_EQ(check(answer, "disk.history"), "ok: recorded");
  EXPECT_EQ(check(answer, "socket"), "ok: listens on /run/s");
  EXPECT_EQ(check(answer, "port"), "none");
  EXPECT_EQ(answer.at("problem_na"), "none");
  EXPECT_FALSE(answer.contains("folders") || answer.contains("state_folder"));
  health.recorded.set_aside = "kept as x";
  health.unreachable = "it is gone";
  health.address = "http://[::1]:2";
  health.port_problem = "1 is taken";
  answer = health_json(health, root);
  EXPECT_EQ(answer.at("state_folder"), "/state");
  EXPECT_EQ(check(answer, "disk.history"), "warn: kept as x");
  EXPECT_EQ(check(answer, "socket"), "warn: it is gone");
  EXPECT_EQ(check(answer, "port"), "warn: 1 is taken");
  EXPECT_TRUE(answer.at("problem").is_null());
  EXPECT_TRUE(answer.at("folders").is_array());
  health.reload.rejected = "ration.toml:3: no";
  answer = health_json(health, tenant);
  EXPECT_EQ(check(answer, "config"), "warn: ration.toml:3: no");
  EXPECT_EQ(answer.at("problem"), "ration.toml:3: no");
  EXPECT_EQ(check(answer, "disk.history"), "warn: kept as x");
  health.recorded.problem = "the disk is full";
  moment_.snapshot.driver_version.clear(), moment_.snapshot.machine_problem = "no driver";
  answer = health_json(health, tenant);
  EXPECT_EQ(check(answer, "disk.history"), "warn: the disk is full");
  EXPECT_EQ(check(answer, "gpu.driver"), "warn: no driver");
  EXPECT_EQ(answer.at("driver_na"), "no driver");
  EXPECT_EQ(answer.at("problem"), "the disk is full");
  answer = health_json(health, nobody);
  EXPECT_EQ(answer.dump().find("disk is full"), std::string::npos) << "it may name a place";
  EXPECT_EQ(check(answer, "disk.history"), "warn: there is a problem, visible to tenants and operators");
  EXPECT_EQ(answer.at("problem"), "there is a problem, visible to tenants and operators");
}

}  // namespace
}  // namespace ration::node
