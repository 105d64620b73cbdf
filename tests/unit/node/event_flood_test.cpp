// One user's events are bounded; everybody else's, and what people do, are all there; nothing is left out silently.
#include "node/events/event_flood.hpp"

#include <gtest/gtest.h>

namespace ration::node {
namespace {

Events events_of(const std::string& user, EventType type, std::size_t count) {
  Event event;
  event.user = user;
  event.type = type;
  return Events(count, event);
}

TEST(EventFlood, WhatIsTooMuchOfOneUserIsCountedAndTold) {
  EventFlood flood;
  auto events = events_of("mallory", EventType::kStarted, EventFlood::kMaxPerMinute + 500);
  for (const Event& event : events_of("alice", EventType::kStarted, 3)) events.push_back(event);
  flood.limit(events, 1'000);
  EXPECT_EQ(events.size(), EventFlood::kMaxPerMinute + 3);
  events = events_of("mallory", EventType::kEnded, 7);
  flood.limit(events, 30'000);
  EXPECT_TRUE(events.empty());
  events = events_of("mallory", EventType::kResized, 1);  // somebody changed a limit
  flood.limit(events, 31'000);
  EXPECT_EQ(events.size(), 1U);
  events.clear();
  flood.limit(events, 61'000);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].text, "507 events of mallory within a minute are not recorded: 7 ended, 500 started");
  EXPECT_EQ(events[0].user, "mallory");
  events = events_of("mallory", EventType::kStarted, 2);
  flood.limit(events, 62'000);
  EXPECT_EQ(events.size(), 2U) << "a new minute";
}

TEST(EventFlood, AClockSetBackEndsTheMinute) {
  EventFlood flood;
  auto events = events_of("mallory", EventType::kDenied, EventFlood::kMaxPerMinute + 1);
  flood.limit(events, 1'000'000);
  EXPECT_EQ(events.size(), EventFlood::kMaxPerMinute);
  events.clear();
  flood.limit(events, 1'000);
  EXPECT_EQ(events.size(), 1U);
}

}  // namespace
}  // namespace ration::node
