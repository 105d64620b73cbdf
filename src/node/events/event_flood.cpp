#include "node/events/event_flood.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "history/amount.hpp"

namespace ration::node {
namespace {

using history::Event;

// What a book alone can cause, without anybody's deciding.
constexpr std::array<std::string_view, 9> kByBooks{"guard_lost", "started",    "ended",     "denied", "waited",
                                                   "violation",  "rebalanced", "shrinking", "idle"};

bool is_by_books(const Event& event) {
  return !event.user.empty() && std::find(kByBooks.begin(), kByBooks.end(), event.type) != kByBooks.end();
}

Event told(const std::string& user, const std::map<std::string, std::size_t>& left_out, history::TimeMs now) {
  std::size_t all = 0;
  std::string kinds;
  for (const auto& [type, count] : left_out) {
    all += count;
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, type);
  }
  Event event;
  event.type = "daemon";
  event.time = now;
  event.user = user;
  event.text = fmt::format("{} events of {} within a minute are not recorded: {}", all, user, kinds);
  return event;
}

}  // namespace

void EventFlood::limit(std::vector<Event>& events, history::TimeMs now) {
  std::erase_if(events, [&](const Event& event) {
    if (!is_by_books(event)) return false;
    Minute& minute = users_.try_emplace(event.user, Minute{now, 0, {}}).first->second;
    if (minute.let_through < kMaxPerMinute) return ++minute.let_through, false;
    ++minute.left_out[event.type];
    return true;
  });
  for (auto each = users_.begin(); each != users_.end();) {
    auto& [user, minute] = *each;
    if (now >= minute.begins && now - minute.begins < history::kMinuteMs) {
      ++each;
      continue;
    }
    if (!minute.left_out.empty()) events.push_back(told(user, minute.left_out, now));
    each = users_.erase(each);
  }
}

}  // namespace ration::node
