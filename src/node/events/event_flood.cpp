#include "node/events/event_flood.hpp"

#include <algorithm>
#include <array>

#include "node/events/event_text.hpp"

namespace ration::node {
namespace {

// Types of events that a program can cause by writing into its own book, without a decision of the daemon.
constexpr std::array kByBooks{EventType::kGuardLost,  EventType::kStarted,   EventType::kEnded,
                              EventType::kDenied,     EventType::kWaited,    EventType::kViolation,
                              EventType::kRebalanced, EventType::kShrinking, EventType::kIdle};

bool is_by_books(const Event& event) {
  return !event.user.empty() && std::find(kByBooks.begin(), kByBooks.end(), event.type) != kByBooks.end();
}

}  // namespace

void EventFlood::limit(Events& events, history::TimeMs now) {
  std::erase_if(events, [&](const Event& event) {
    if (!is_by_books(event)) return false;
    Minute& minute = users_.try_emplace(event.user, Minute{now, 0, {}}).first->second;
    if (minute.passed < kMaxPerMinute) return ++minute.passed, false;
    ++minute.dropped[event.type];
    return true;
  });
  for (auto each = users_.begin(); each != users_.end();) {
    auto& [user, minute] = *each;
    if (now >= minute.begins && now - minute.begins < history::kMinuteMs) {
      ++each;
      continue;
    }
    if (!minute.dropped.empty()) {
      events.push_back(flood_event(user, minute.dropped));
      events.back().time = now;
    }
    each = users_.erase(each);
  }
}

}  // namespace ration::node
