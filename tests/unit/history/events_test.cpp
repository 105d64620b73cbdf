// The event log: numbers grow over restarts, nothing that was answered is lost.
#include <sys/wait.h>
#include <unistd.h>

#include "history_fixture.hpp"

namespace ration::history {
namespace {

Event event_of(const std::string& type, const std::string& workload = "") {
  Event event;
  event.time = kStart, event.type = type, event.workload = workload;
  return event;
}

TEST_F(HistoryTest, AnEventComesBackAsItWasGiven) {
  Event event = event_of("denied", "serve");
  event.tenant = "vision", event.user = "svc", event.gpu = 0, event.bytes = 536870912;
  event.denial = "d-4-17", event.by = "ops", event.text = "refused; '); DROP TABLE events", event.old_value = "1";
  event.new_value = "2", event.fix = "ration set serve", event.why = R"({"held":1})";
  event.message = R"({"message_id":"request.denied","arguments":{}})";
  const std::int64_t id = *open().append(event);
  const auto back = reader().event(id);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->time, kStart);
  EXPECT_EQ(back->type, "denied");
  EXPECT_EQ(back->workload, "serve");
  EXPECT_EQ(back->tenant, "vision");
  EXPECT_EQ(back->user, "svc");
  EXPECT_EQ(back->gpu, 0);
  EXPECT_EQ(back->bytes, 536870912);
  EXPECT_FALSE(back->pid) << "unknown stays unknown";
  EXPECT_EQ(back->by, "ops");
  EXPECT_EQ(back->text, event.text);
  EXPECT_EQ(back->why, event.why);
  EXPECT_EQ(back->message, event.message);
  EXPECT_EQ(back->old_value, "1");
  EXPECT_EQ(back->new_value, "2");
  EXPECT_EQ(back->fix, "ration set serve");
  EXPECT_EQ(reader().denial("d-4-17", "")->id, id);
  EXPECT_EQ(reader().denial("d-4-18", "").error().id, "E1917");
  EXPECT_EQ(reader().denial("", "").error().id, "E1917");
  EXPECT_EQ(reader().denial(std::to_string(id), "")->id, id);
  EXPECT_EQ(reader().event(id + 1).error().id, "E1917");
}

// Every user numbers their own runs.
TEST_F(HistoryTest, ADenialOfThatNameIsTheAskersOrNobodyIsTakenForAnother) {
  History history = open();
  Event event = event_of("denied", "serve");
  event.denial = "d-3-1", event.user = "alice";
  const std::int64_t first = *history.append(event);
  event.user = "bob";
  const std::int64_t second = *history.append(event);
  ASSERT_TRUE(history.commit());
  EXPECT_EQ(reader().denial("d-3-1", "alice")->id, first);
  EXPECT_EQ(reader().denial("d-3-1", "bob")->id, second);
  const auto several = reader().denial("d-3-1", "root");
  EXPECT_EQ(several.error().id, "E1802");
  EXPECT_NE(several.error().what.find(std::to_string(first)), std::string::npos);
  EXPECT_EQ(reader().denial(std::to_string(first), "bob")->user, "alice");
}

TEST_F(HistoryTest, EventsAreFoundBySinceTypeAndWorkload) {
  History history = open();
  std::vector<Event> events;
  for (int index = 0; index < 30; ++index)
    events.push_back(event_of(index % 3 == 0 ? "denied" : "resized", index % 2 == 0 ? "a" : "b"));
  ASSERT_TRUE(history.append(events));
  const auto ids = [&](const EventQuestion& question) {
    std::vector<std::int64_t> found;
    const auto events_now = reader().events(question);
    for (const auto& event : *events_now) found.push_back(event.id);
    return found;
  };
  EventQuestion question;
  question.limit = 3;
  EXPECT_EQ(ids(question), (std::vector<std::int64_t>{28, 29, 30})) << "the newest, oldest first";
  question.since = 10;
  EXPECT_EQ(ids(question), (std::vector<std::int64_t>{11, 12, 13})) << "to page on from there";
  question.types = {"denied", "trimmed"};
  EXPECT_EQ(ids(question), (std::vector<std::int64_t>{13, 16, 19}));
  question.workload = "b";
  EXPECT_EQ(ids(question), (std::vector<std::int64_t>{16, 22, 28}));
  question.limit = 0;
  EXPECT_TRUE(ids(question).empty());
  EXPECT_EQ(*reader().kept_events(), (std::pair<std::int64_t, std::int64_t>{1, 30}));
}

TEST_F(HistoryTest, NumbersAreNeverUsedAgainEvenAfterAKillAndPruning) {
  std::int64_t last = 0;
  for (int start = 0; start < 20; ++start) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto history = History::open(path_);
      if (!history || !history->append(event_of("daemon"))) ::_exit(1);
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto kept = reader().kept_events();
    EXPECT_GT(kept->second, last);
    last = kept->second;
  }
  History history = open();
  // All of them are too old now; by a clock that leapt, though.
  ASSERT_TRUE(history.record(sample_at(kStart)));
  ASSERT_TRUE(history.record(sample_at(kStart + 91 * kDayMs)));
  ASSERT_TRUE(history.commit());
  EXPECT_EQ(reader().kept_events()->second, last) << "nothing is removed by a clock that may be wrong";
  ASSERT_TRUE(history.record(sample_at(kStart + 98 * kDayMs)));
  ASSERT_TRUE(history.commit());
  EXPECT_EQ(reader().kept_events()->second, 0);
  EXPECT_EQ(*history.append(event_of("daemon")), last + 1);
}

/// As a full disk would: nothing can be written until it is opened again.
class FullDisk : public HistoryTest {
 protected:
  void fill() {
    EXPECT_EQ(sql("CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no room'); END"), "");
  }
  void free() { EXPECT_EQ(sql("DROP TRIGGER full"), ""); }
  std::vector<Event> all() {
    EventQuestion question;
    question.limit = 1'000'000;
    return *reader().events(question);
  }
};

TEST_F(FullDisk, EventsAreStoredInTheirOrderWithTheirTimesWhenThereIsRoomAgain) {
  History history = open();
  ASSERT_EQ(*history.append(event_of("before")), 1);
  fill();
  for (int index = 0; index < 1'200; ++index) {
    std::vector<Event> events{event_of("kept", std::to_string(index)), event_of("kept too")};
    events[0].time = events[1].time = kStart + index;
    EXPECT_FALSE(history.append(events));
    EXPECT_EQ(events[0].id, 0) << "it has no number yet";
  }
  EXPECT_FALSE(history.commit());
  EXPECT_TRUE(history.take_late().empty());
  free();
  ASSERT_TRUE(history.commit());
  const std::vector<Event> late = history.take_late();
  ASSERT_EQ(late.size(), 2'400U);
  EXPECT_TRUE(history.take_late().empty());
  ASSERT_EQ(*history.append(event_of("after")), 2'402);
  const std::vector<Event> events = all();
  ASSERT_EQ(events.size(), 2'402U);
  EXPECT_EQ(events.back().type, "after");
  for (std::size_t index = 0; index < late.size(); ++index) {
    const Event& event = events[index + 1];
    EXPECT_EQ(event.id, static_cast<std::int64_t>(index) + 2);
    EXPECT_EQ(event.id, late[index].id);
    EXPECT_EQ(event.time, kStart + static_cast<TimeMs>(index / 2));
    EXPECT_EQ(event.workload, index % 2 == 0 ? std::to_string(index / 2) : "");
  }
}

TEST_F(FullDisk, WhatCannotEvenBeKeptIsCounted) {
  History history = open();
  fill();
  for (std::size_t index = 0; index < EventLog::kMaxKept + 25;) {
    std::vector<Event> events(25, event_of("kept"));
    for (Event& event : events) event.time = kStart + static_cast<TimeMs>(index++);
    EXPECT_FALSE(history.append(events));
  }
  free();
  ASSERT_TRUE(history.append(event_of("after"))) << "the next event will do, too";
  EXPECT_EQ(history.take_late().size(), EventLog::kMaxKept + 1);
  const std::vector<Event> events = all();
  ASSERT_EQ(events.size(), EventLog::kMaxKept + 2);
  EXPECT_EQ(events.back().type, "after");
  const Event& told = events[events.size() - 2];
  EXPECT_EQ(told.type, "daemon");
  EXPECT_EQ(told.text.find("25 events from 2026-01-05T00:00:10.000Z to 2026-01-05T00:00:10.024Z are lost"), 0U)
      << told.text;
}

}  // namespace
}  // namespace ration::history
