// What an event says and what it is recorded as: everything that is judged later is a field, never the sentence.
#include "node/events/event_text.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/say.hpp"
#include "history/history.hpp"
#include "history/reader.hpp"
#include "machine/user_names.hpp"
#include "node/events/causes.hpp"
#include "node/http/event_view.hpp"
#include "node/snapshot/snapshot.hpp"
#include "node/tenants/tenants.hpp"

namespace ration::node {
namespace {

using namespace literals;
using nlohmann::json;

const EventSubject kTrain{"train", "nlp", "ann", 1};

DeniedRequest denied_request() {
  DeniedRequest denied{"d-17-3", book::DenialReason::kLimit, "it held all of it", "the GPU was full", "cuMemAlloc_v2"};
  denied.requested = 2_GiB, denied.used = 5_GiB, denied.limit = 6_GiB;
  return denied;
}

TEST(EventType, EveryTypeHasItsNameAndIsFoundByIt) {
  for (int type = 0; type <= static_cast<int>(EventType::kWaited); ++type)
    EXPECT_EQ(event_type(name_of(static_cast<EventType>(type))), static_cast<EventType>(type));
  EXPECT_FALSE(event_type("looked"));
}

TEST(EventText, AStartNamesALimitOnceWhereAllAreAlike) {
  EXPECT_EQ(started_event(kTrain, {4_GiB}).text, "nlp/train started with a limit of 4.00 GiB");
  EXPECT_EQ(started_event(kTrain, {4_GiB, 4_GiB}).text, "nlp/train started with a limit of 4.00 GiB on each of 2 GPUs");
  EXPECT_EQ(started_event(kTrain, {4_GiB, 8_GiB}).text, "nlp/train started with a limit of 4.00 GiB, 8.00 GiB");
}

TEST(EventText, ADenialSaysWhatBoundItAtThatMoment) {
  DeniedRequest denied = denied_request();
  EXPECT_EQ(denied_event(kTrain, denied, false).text,
            "nlp/train was denied 2.00 GiB: it held 5.00 GiB of its limit 6.00 GiB");
  denied.held_back_from = 8_GiB;
  const Event waited = denied_event(kTrain, denied, true);
  EXPECT_EQ(waited.text,
            "nlp/train was denied 2.00 GiB: it held 5.00 GiB, and its limit in force was 6.00 GiB, not the "
            "configured 8.00 GiB");
  EXPECT_EQ(waited.type, EventType::kWaited);
  EXPECT_EQ(waited.bytes, static_cast<std::int64_t>((2_GiB).count()));
  EXPECT_EQ(waited.gpu, 1);
}

TEST(EventText, AChangeOfLimitsNamesOnlyWhatWasAskedFor) {
  LimitChangeFacts change;
  change.guarantee = {0_GiB, 2_GiB};
  change.by = "ops";
  EXPECT_EQ(resized_event(kTrain, change).text, "nlp/train: guarantee 0 B → 2.00 GiB, by ops");
  change.limit = {8_GiB, 4_GiB};
  change.gpu = 1;
  change.over = 1_GiB;
  EXPECT_EQ(resized_event(kTrain, change).text,
            "nlp/train: limit 8.00 GiB → 4.00 GiB, guarantee 0 B → 2.00 GiB on GPU 1, by ops; shrinking, over by "
            "1.00 GiB");
}

TEST(EventText, WhoHoldsTooMuchIsToldWhatComesOfIt) {
  const Event stays = shrinking_event(kTrain, {6_GiB, 4_GiB, 1_GiB, 3_GiB, 1_GiB});
  EXPECT_EQ(
      stays.text,
      "nlp/train holds 6.00 GiB, 2.00 GiB more than its limit 4.00 GiB, and gets no more memory until it "
      "uses less than that limit; 3.00 GiB are in pools of the driver, 1.00 GiB in contexts, and the rest is in use");
  EXPECT_EQ(stays.fix, "ration trim train");
  EXPECT_EQ(shrinking_event(kTrain, {6_GiB, 4_GiB, 2_GiB, {}, {}}).text,
            "nlp/train holds 6.00 GiB, 2.00 GiB more than its limit 4.00 GiB: its next request moves that much of its "
            "managed memory to the host");
}

TEST(EventText, ABurstSaysHowManyAndForHowLong) {
  LimitMoveFacts burst{6_GiB, 4_GiB, "kept for vision", 1, 5 * kSecond, 5 * kSecond};
  EXPECT_EQ(rebalanced_event(kTrain, burst).text, "nlp/train may hold 4.00 GiB instead of 6.00 GiB: kept for vision");
  burst.count = 3;
  EXPECT_EQ(rebalanced_event(kTrain, burst).text,
            "nlp/train may hold 4.00 GiB instead of 6.00 GiB: kept for vision (the last of 3 changes)");
  burst.last_ns = 65 * kSecond;
  const Event told = rebalanced_event(kTrain, burst);
  EXPECT_EQ(told.text,
            "nlp/train may hold 4.00 GiB instead of 6.00 GiB: kept for vision (the last of 3 changes within 1m 00s)");
  EXPECT_EQ(told.count, 3);
  EXPECT_EQ(told.first_time, 5'000);
  // Why it may not hold more is no reason for what it gained.
  const LimitMoveFacts gained{4_GiB, 6_GiB, "kept for vision", 1, 5 * kSecond, 5 * kSecond};
  EXPECT_EQ(rebalanced_event(kTrain, gained).text, "nlp/train may hold 6.00 GiB instead of 4.00 GiB");
}

TEST(EventRecord, EveryTypeHasANameOfItsOwn) {
  const std::vector<std::string> names = event_type_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(EventType::kWaited) + 1);
  for (const std::string& name : names) EXPECT_EQ(name_of(event_type(name).value()), name);
  EXPECT_FALSE(event_type("denial"));
}

TEST(EventRecord, ADenialIsRecordedWithItsReason) {
  Event event = denied_event(kTrain, denied_request(), false);
  event.fix = "ration set train --limit 8GiB";
  event.fix_is_operators = true;
  const history::Event record = to_record(event);
  EXPECT_EQ(record.type, "denied");
  EXPECT_EQ(record.denial, "d-17-3");
  EXPECT_EQ(record.fix, std::string(machine::kAskOperator) + "ration set train --limit 8GiB");
  const json why = json::parse(record.why);
  EXPECT_EQ(why.at("reason"), "limit");
  EXPECT_TRUE(why.at("device_free_bytes").is_null());
  EXPECT_EQ(facts_of(record).operators_fix, "ration set train --limit 8GiB");
  event.fix_is_operators = false;
  EXPECT_EQ(to_record(event).fix, "ration set train --limit 8GiB");
  EXPECT_EQ(facts_of(to_record(event)).operators_fix, "");
}

TEST(EventRecord, WhatAnEventSaysIsRecordedAndSentAsIdAndArguments) {
  const history::Event record = to_record(suspended_event(kTrain, 3_GiB));
  const json row = event_json(record, true);
  EXPECT_EQ(row.at("text"), "nlp/train is suspended: its 3.00 GiB are in host memory until it is resumed");
  EXPECT_EQ(row.at("message_id"), "suspension.done");
  EXPECT_EQ(row.at("arguments"), json({{"workload", "nlp/train"}, {"moved_bytes", 3221225472}}));
}

TEST(EventRecord, AnEventOfAnOlderRationIsItsTextAlone) {
  history::Event record = to_record(suspended_event(kTrain, 3_GiB));
  for (const char* message : {"", "[]", "{", "5"}) {
    record.message = message;
    const json row = event_json(record, true);
    EXPECT_EQ(row.at("text"), record.text);
    EXPECT_TRUE(row.at("message_id").is_null() && row.at("arguments").is_null()) << message;
  }
}

TEST(EventRecord, ADenialsReasonOfAnOlderRationIsItsTextAlone) {
  DeniedRequest denied = denied_request();
  denied.because = say<"denial.no_book">();
  history::Event record = to_record(denied_event(kTrain, denied, false));
  EXPECT_EQ(event_json(record, true).at("why").at("because_message").at("message_id"), "denial.no_book");
  record.why = R"({"because":"train held all of it","not_because":"","device_free_bytes":4})";
  for (const json& row : {event_json(record, true).at("why"), denial_json(record, {true, 0}, "")}) {
    EXPECT_EQ(row.at("because"), "train held all of it");
    EXPECT_FALSE(row.contains("because_message")) << row;
  }
}

TEST(EventRecord, ArgumentsTellNobodyWhatTheTextHidesFromThem) {
  UngovernedView view;
  view.process.pid = 4711, view.process.command = "secret --token=1", view.process.user = "ann";
  const json row = event_json(to_record(ungoverned_event(view)), false);
  EXPECT_EQ(row.at("message_id"), "ungoverned.hidden");
  EXPECT_EQ(row.dump().find("secret"), std::string::npos) << row;
}

TEST(EventRecord, WhatNothingIsToBeSaidOfHasNoReason) {
  EXPECT_EQ(to_record(daemon_ended_event()).why, "");
  history::Event strange;
  for (const char* why : {"", "[]", "{", "{\"lease\":5,\"operators_fix\":null}"}) {
    strange.why = why;
    EXPECT_EQ(facts_of(strange).lease, "") << why;
  }
}

class Causes : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ration-causes-XXXXXX";
    folder_ = ::mkdtemp(folder);
    auto opened = history::History::open(folder_ + "/history.db", {});
    ASSERT_TRUE(opened);
    history_.emplace(std::move(*opened));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Of the last of them.
  std::vector<std::string> causes(const Events& events) {
    std::vector<history::Event> records;
    for (const Event& event : events) records.push_back(to_record(event));
    EXPECT_TRUE(history_->append(records));
    auto reader = history::Reader::open(folder_ + "/history.db");
    std::vector<std::string> texts;
    const auto found = causes_of(*reader, records.back());
    for (const history::Event& cause : *found) texts.push_back(cause.text);
    return texts;
  }

  std::string folder_;
  std::optional<history::History> history_;
};

TEST_F(Causes, OfAGrantTheQueueingOfTheSameLeaseWhateverItSays) {
  Event first = queued_event({"", "nlp", "ann", {}}, {"q-1", "train", 4_GiB}, "its turn"),
        second = queued_event({"", "nlp", "ann", {}}, {"q-2", "train", 4_GiB}, "its turn"),
        granted = granted_event({"", "nlp", "ann", {}}, {"q-1", "train", 4_GiB}, {0}, "");
  second.text = first.text;
  first.text = "somebody waits";
  EXPECT_EQ(causes({first, second, granted}), std::vector<std::string>{"somebody waits"});
  granted.lease.clear();
  EXPECT_TRUE(causes({granted}).empty()) << "nobody knows which it was";
}

TEST_F(Causes, OfWhatAScheduleChangedTheScheduleThatWasSet) {
  TenantChange change{"nlp", "limit", "8GiB", "4GiB", "schedule of night", {}, true};
  const Event set = schedule_set_event({"night", "mon-sun", "22:00-06:00", {{"nlp", "4GiB"}}}, "ops");
  const Event other = config_event("schedule is a word of this sentence");
  EXPECT_EQ(causes({set, other, tenant_resized_event(change)}), std::vector<std::string>{set.text});
  change.by_schedule = false;
  const Events before{set, tenant_resized_event(change)};
  for (const std::string& cause : causes(before)) EXPECT_NE(cause, set.text) << "a person changed it";
}

}  // namespace
}  // namespace ration::node
